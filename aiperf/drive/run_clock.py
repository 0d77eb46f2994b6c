"""The driver's clock: seconds since the run began. It never runs back, and goes on while no driver is there."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from aiperf.system.describe import boot_id


class Clock(Protocol):
    """Time as the journal has it."""

    def now(self) -> float:
        """Seconds since the run began."""
        ...


@dataclass(frozen=True, slots=True)
class HostTime:
    """A moment by the clocks of a host."""

    unix: float
    """Its wall clock, which can be set."""
    boot_id: str | None
    """Another one after each boot; None where the kernel tells none."""
    boot_seconds: float
    """Since then, suspended time included."""


def host_time() -> HostTime:
    """This moment, by this host."""
    return HostTime(time.time(), boot_id(), _boot_seconds())


class WallClock:
    """Goes on by the time since the host booted, which nobody can set and which counts on while the host is suspended."""

    def __init__(self, already: float = 0.0) -> None:
        """`already`: seconds since the run began, at this moment."""
        self._origin = _boot_seconds() - already

    def now(self) -> float:
        """Seconds since the run began."""
        return _boot_seconds() - self._origin


def _boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
