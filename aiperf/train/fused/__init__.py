"""Batch normalisation with what stands beside it, as one kernel where eager PyTorch has several: fewer bytes move.

`kernels.py` holds the Triton kernels, `norm.py` makes operations of them that torch can differentiate, `line.py` puts them
into a network's forward, `check.py` holds them to torch's own on the device at hand before they are taken. No torch in this
file.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Literal

Fusion = Literal["no", "norm", "conv"]
"""What is fused by hand: nothing; normalisations with addition and ReLU; these, and 1×1 convolutions with their statistics."""


def missing(*, on_cuda: bool) -> str | None:
    """Why normalisations cannot be fused here, None where they can."""
    if importlib.util.find_spec("triton") is None:
        return "the package triton is not installed (torch's CUDA build brings it)"
    if not on_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return "there is no accelerator that Triton compiles for"
    return None
