"""Verification of a journal: recompute everything that follows from the rest, and compare."""

from __future__ import annotations

from aiperf.verify.check import CheckResult, Finding, Verification
from aiperf.verify.verification import verify

__all__ = ["CheckResult", "Finding", "Verification", "verify"]
