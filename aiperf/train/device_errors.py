"""Classification of errors of torch and its libraries: full memory, failed device, or another error.

The text is searched if torch has no exception class for an error.
"""

from __future__ import annotations

import torch

_MEMORY = (
    "out of memory",
    "OUT_OF_MEMORY",
    "ErrorOutOfMemory",
    "STATUS_ALLOC_FAILED",
    "StatusAllocFailed",
    # torch skips the plans of cuDNN whose workspace does not fit, and raises this after the last one
    "unable to find an engine to execute this computation",
    "No valid execution plans built",
)
"""Messages of CUDA's loader and graphs (AcceleratorError), of cuBLAS, cuDNN, MIOpen and HIP (RuntimeError), and of NCCL
(DistBackendError)."""
_DEVICE = (
    "CUDA error",
    "HIP error",
    "CUDA driver",
    "NVIDIA driver",
    "cudaErrorDevices",
    "No CUDA GPUs are available",
    "cuDNN error",
    "STATUS_EXECUTION_FAILED",
)
_PROGRAM = ("illegal memory access", "device-side assert", "misaligned address")
"""Faults of a kernel. They occur on any device."""


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _MEMORY)


def first_line(error: BaseException | None) -> str:
    """Return ': ' and the first line of an error's message. Empty for None."""
    return "" if error is None else f": {str(error).partition(chr(10))[0]}"


def is_of_device(error: BaseException) -> bool:
    """Full memory and a kernel's own fault are no failure of the device."""
    if is_out_of_memory(error) or not isinstance(error, RuntimeError):
        return False
    text = str(error)
    if any(words in text for words in _PROGRAM):
        return False
    return isinstance(error, torch.AcceleratorError) or any(words in text for words in _DEVICE)
