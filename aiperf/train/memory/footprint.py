"""Accelerator memory of a trial: the measured memory of a training step, and the estimated memory of everything else.

A step is measured after its kernels are chosen, because cuDNN's search also reserves workspaces of rejected algorithms. (Not
run on a GPU yet.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from aiperf.train.device_errors import first_line, is_out_of_memory
from morphism import Graph, Map, cost

SNAPSHOTS = 3
"""Maximum number of snapshots on the device: the epoch's, which a retry starts from, one that is queued or being copied to the
host, and the new one."""


def bytes_outside_a_step(graph: Graph, batch: int, bytes_per_element: int, ranks: int) -> int:
    """Return the maximum bytes that a trial needs in addition to weights, gradients and activations of a training step.

    They are the momentum, the snapshots of weights and momentum for checkpoints, and the next batch (as bytes, as FP32 during
    normalization, and in the network's input type). With several ranks, one copy of the gradients is added: DDP's buckets,
    while it rebuilds them after the first step, or Horovod's fusion buffer, which is no larger. `batch`: images per rank.
    `bytes_per_element`: of an input value.
    """
    weights = 4 * cost(graph).parameters
    shape = graph.shapes[0]
    assert isinstance(shape, Map)
    following = batch * shape.elements * (1 + 4 + bytes_per_element)
    return weights + (weights if ranks > 1 else 0) + SNAPSHOTS * 2 * weights + following


class DeviceMemory(Protocol):
    """Interface of the memory of a device, as its allocator reports it."""

    def release(self) -> None:
        """Free the memory that the allocator has reserved and that is not in use."""

    def begin(self) -> None:
        """Begin a new measurement of `peak`: set it to the bytes that are reserved now."""

    def peak(self) -> int:
        """Return the maximum bytes reserved since the last call of `begin`."""

    def hold(self, size: int) -> object:
        """Allocate `size` bytes. They are freed with the returned object. Raise torch.OutOfMemoryError if they do not fit."""


class CudaMemory:
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


def peak_of(step: Callable[[], None], memory: DeviceMemory) -> int:
    """Return the maximum bytes of the second of two runs. The first run chooses the kernels."""
    step()
    memory.release()
    memory.begin()
    step()
    return memory.peak()


def shortage(step: Callable[[], None], other_bytes: int, memory: DeviceMemory) -> str | None:
    """None if a training step fits in addition to `other_bytes`, else ': ' and the device's text."""
    block: object = None
    try:
        step()
        memory.release()
        block = memory.hold(other_bytes)
        step()
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return first_line(error)
    else:
        return None
    finally:
        del block
        memory.release()
