"""From the host's memory to a device, without the host waiting for what is queued there. (Not run on a GPU yet.)"""

from __future__ import annotations

import torch


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on `device`; itself on a processor.

    A copy to CUDA from memory that is not pinned waits for the stream, `non_blocking` or not (CUDA C++ programming guide,
    asynchronous concurrent execution). Pinned memory is torch's caching allocator's, and not reused before the copy is over.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return (tensor if tensor.is_pinned() else tensor.pin_memory()).to(device, non_blocking=True)
