"""Memory of an accelerator that a trial takes: what a step needs, and what lies there beside it.

A step is measured after its kernels are chosen: while cuDNN tries its algorithms, workspaces of those that it rejects are
reserved too, and are not needed again. What lies beside a step is reckoned. (Not run on a GPU yet.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from morphism import Graph, Map, cost

SNAPSHOTS = 3
"""On the device at a time at most: the epoch's that is kept to begin again from, one that waits for the disk or is being copied
to the host, and the new one."""


def beside_a_step(graph: Graph, batch: int, bytes_per_element: int, ranks: int) -> int:
    """Bytes that a trial holds besides weights, gradients and activations of a step, at the most.

    Momentum; gradients as they are exchanged (a copy in buckets, where there are several ranks: DDP's, while it makes them
    anew after the first step, or Horovod's fusion buffer, which is no larger); snapshots of weights and momentum for the
    checkpoints; and the next batch: as bytes, as FP32 while it is normalised, and as the network takes it.
    """
    weights = 4 * cost(graph).parameters
    shape = graph.shapes[0]
    assert isinstance(shape, Map)
    following = batch * shape.elements * (1 + 4 + bytes_per_element)
    return weights + (weights if ranks > 1 else 0) + SNAPSHOTS * 2 * weights + following


class Memory(Protocol):
    """A device's, as its allocator sees it."""

    def release(self) -> None:
        """Gives back what is reserved and not in use."""
        ...

    def begin(self) -> None:
        """From now on the peak counts."""
        ...

    def peak(self) -> int:
        """Bytes reserved at most since then."""
        ...

    def hold(self, size: int) -> object:
        """Takes so many bytes until the result is let go of. Raises torch.cuda.OutOfMemoryError."""
        ...


class CudaMemory:
    """A CUDA device's."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def release(self) -> None:
        torch.cuda.empty_cache()

    def begin(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)

    def peak(self) -> int:
        return torch.cuda.max_memory_reserved(self._device)

    def hold(self, size: int) -> Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self._device)


def peak_of(step: Callable[[], None], memory: Memory) -> int:
    """Bytes that a step reserves at most once its kernels are chosen. Raises torch.cuda.OutOfMemoryError."""
    step()
    memory.release()
    memory.begin()
    step()
    return memory.peak()


def fits(step: Callable[[], None], beside: int, memory: Memory) -> bool:
    """Whether a step fits beside so many bytes, once its kernels are chosen."""
    held: object = None
    try:
        step()
        memory.release()
        held = memory.hold(beside)
        step()
    except torch.cuda.OutOfMemoryError:
        return False
    else:
        return True
    finally:
        del held
        memory.release()
