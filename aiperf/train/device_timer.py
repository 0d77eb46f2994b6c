"""When a step began and ended on the device, without waiting for the device.

On a CPU the host's clock says it. On CUDA kernels run after the host has queued them: marks are events recorded in the stream
(about 2 µs each, no synchronisation), and are read once they have passed. `Timeline.settle` waits for a mark two steps back,
which keeps the host from running away (a heartbeat then means that the accelerator really got on), and never empties the
queue, so it costs no accelerator time.
"""

from __future__ import annotations

import time
from typing import Protocol

import torch

Mark = float | torch.cuda.Event


class Timeline(Protocol):
    """Marks on a device's time, and the host's second (time.monotonic) at which each passed."""

    behind: int
    """How many steps the host may be ahead of the device."""

    def mark(self) -> Mark:
        """A mark after the work queued so far."""
        ...

    def anchor(self) -> None:
        """Waits for the device and ties its clock to the host's anew (an event's time is a float32 of ms: an hour after its
        anchor it is exact to 0.25 ms)."""
        ...

    def second(self, mark: Mark) -> float:
        """The host's second at which the device passed the mark; waits for it where it has not."""
        ...


class HostTimeline:
    """A CPU's: the host does the work itself."""

    behind = 0

    def mark(self) -> Mark:
        return time.monotonic()

    def anchor(self) -> None:
        return None

    def second(self, mark: Mark) -> float:
        assert isinstance(mark, float), mark
        return mark


class CudaTimeline:
    """A CUDA device's current stream."""

    behind = 2

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.anchor()

    def mark(self) -> Mark:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def anchor(self) -> None:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        event.synchronize()
        self._anchor, self._anchored_at = event, time.monotonic()

    def second(self, mark: Mark) -> float:
        assert isinstance(mark, torch.cuda.Event), mark
        mark.synchronize()
        milliseconds: float = self._anchor.elapsed_time(mark)
        return self._anchored_at + milliseconds / 1000.0


def timeline_of(device: torch.device) -> Timeline:
    return CudaTimeline(device) if device.type == "cuda" else HostTimeline()
