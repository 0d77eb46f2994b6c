"""Profiler of torch's operators and GPU kernels."""

from __future__ import annotations

import os

import torch
from torch.autograd.profiler import profile


def operator_profile(device: torch.device) -> profile:
    """torch.profiler does the same, but imports torch's compiler first, which takes seconds (torch 2.13)."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise its library prints lines about its start and end
    return profile(use_device="cuda" if device.type == "cuda" else None, use_kineto=True)
