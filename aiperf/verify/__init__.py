"""Verification of a journal (the event log of a run): recompute everything that follows from the rest, and compare.

found = verify(Path("runs/20261121-120000-digits"))
found.is_sound, found.findings
"""

from __future__ import annotations

from aiperf.verify.check import CheckResult, Finding, Verification
from aiperf.verify.verification import verify

__all__ = ["CheckResult", "Finding", "Verification", "verify"]
