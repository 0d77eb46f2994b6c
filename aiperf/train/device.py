"""Device of a rank: times of its steps, measured without synchronizing it, and classification of its errors.

On CUDA a mark is an event in the stream (about 2 µs). The training loop reads the mark of two steps earlier, which limits the
number of queued steps and never empties the queue.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Protocol

import torch

from aiperf.data.batches import Waiting

Mark = float | torch.cuda.Event


class Timeline(Protocol):
    """Interface of a device's clock: marks between its queued work, and the host's time at which the device passed each."""

    behind: int
    """Number of steps that the host may be ahead of the device."""

    def mark(self) -> Mark:
        """Return a mark (a point of the device's time) after all work queued up to now. The call does not wait."""

    def anchor(self) -> None:
        """Wait for the device, and relate its clock to the host's. Call it regularly, such as once per epoch.

        The time of a CUDA event is a float32 in ms: one hour after its anchor it is accurate to 0.25 ms.
        """

    def second(self, mark: Mark) -> float:
        """Wait until the device passes the mark. Return the host's time of that moment in seconds (time.monotonic())."""


class HostTimeline:
    """Time of a CPU. A mark is the time of its creation, and nothing waits."""

    behind = 0

    def mark(self) -> Mark:
        return time.monotonic()

    def anchor(self) -> None:
        return None

    def second(self, mark: Mark) -> float:
        assert isinstance(mark, float), mark
        return mark


class CudaTimeline:
    """Time of a CUDA device's current stream. A mark is a CUDA event."""

    behind = 2

    def __init__(self, device: torch.device, waiting: Waiting = nullcontext) -> None:
        self._device = device
        self._waiting = waiting
        self.anchor()

    def mark(self) -> Mark:
        return self._recorded()

    def anchor(self) -> None:
        event = self._recorded()
        with self._waiting():
            event.synchronize()
        self._anchor, self._anchored_at = event, time.monotonic()

    def _recorded(self) -> torch.cuda.Event:
        # blocking: a wait sleeps in the driver. Spinning would take a core from the decoding threads
        event = torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def second(self, mark: Mark) -> float:
        assert isinstance(mark, torch.cuda.Event), mark
        with self._waiting():
            mark.synchronize()
        milliseconds: float = self._anchor.elapsed_time(mark)
        return self._anchored_at + milliseconds / 1000.0


def timeline_of(device: torch.device, waiting: Waiting = nullcontext) -> Timeline:
    """`waiting`: gives a context manager for each wait for the GPU."""
    return CudaTimeline(device, waiting) if device.type == "cuda" else HostTimeline()


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
