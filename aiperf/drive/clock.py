"""The driver's clock: seconds since the run began. It never runs back, and goes on while no driver is there."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Time as the journal has it."""

    def now(self) -> float:
        """Seconds since the run began."""
        ...


class WallClock:
    """Monotonic within a process; over a resume it goes on by the host's wall clock."""

    def __init__(self, already: float = 0.0) -> None:
        """`already`: seconds since the run began, at this moment."""
        self._origin = time.monotonic() - already

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._origin
