"""Begin and end of steps on the device, measured without synchronizing it.

On a CPU the host's clock is used. On CUDA, kernels run after the host has queued them. A mark is an event recorded in
the stream (about 2 µs, no synchronization) and is read after it has passed. The training loop reads the mark of two
steps earlier. This limits the number of queued steps, so a heartbeat shows real progress of the accelerator, and it
never empties the queue, so it costs no accelerator time.
"""

from __future__ import annotations

import time
from typing import Protocol

import torch

Mark = float | torch.cuda.Event


class Timeline(Protocol):
    """Marks on a device's time, and the host's time (time.monotonic() in seconds) at which each passed."""

    behind: int
    """Number of steps that the host may be ahead of the device."""

    def mark(self) -> Mark:
        """Return a mark after the work queued so far."""

    def anchor(self) -> None:
        """Synchronize the device and relate its clock to the host's.

        An event's time is a float32 in ms: one hour after its anchor it is accurate to 0.25 ms.
        """

    def second(self, mark: Mark) -> float:
        """Wait until the device passes the mark. Return the host's time of that moment in seconds (time.monotonic())."""


class HostTimeline:
    """Timeline of a CPU."""

    behind = 0

    def mark(self) -> Mark:
        return time.monotonic()

    def anchor(self) -> None:
        return None

    def second(self, mark: Mark) -> float:
        assert isinstance(mark, float), mark
        return mark


class CudaTimeline:
    """Timeline of a CUDA device's current stream."""

    behind = 2

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.anchor()

    def mark(self) -> Mark:
        return self._recorded()

    def anchor(self) -> None:
        event = self._recorded()
        event.synchronize()
        self._anchor, self._anchored_at = event, time.monotonic()

    def _recorded(self) -> torch.cuda.Event:
        # blocking: a wait sleeps in the driver. Spinning would take a core from the decoding threads
        event = torch.cuda.Event(enable_timing=True, blocking=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def second(self, mark: Mark) -> float:
        assert isinstance(mark, torch.cuda.Event), mark
        mark.synchronize()
        milliseconds: float = self._anchor.elapsed_time(mark)
        return self._anchored_at + milliseconds / 1000.0


def timeline_of(device: torch.device) -> Timeline:
    return CudaTimeline(device) if device.type == "cuda" else HostTimeline()
