"""Copy from the host's memory to a device without waiting for queued work. (Not run on a GPU yet.)."""

from __future__ import annotations

import torch


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the tensor on `device`, same shape and type. Unchanged on a CPU.

    A copy to CUDA from memory that is not pinned waits for the stream, `non_blocking` or not (CUDA C++ programming
    guide, asynchronous concurrent execution). Pinned memory comes from torch's caching allocator and is not reused
    before the copy is complete.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)
