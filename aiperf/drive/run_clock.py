"""Driver's clock: seconds since the run began. It never decreases, and it includes the time without a driver."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from aiperf.system.describe import boot_id


class Clock(Protocol):
    """Clock of a run. All times in the journal are read from it."""

    def now(self) -> float:
        """Return the seconds since the run began."""


@dataclass(frozen=True, slots=True)
class HostTime:
    """Current time on the clocks of one host."""

    unix: float
    """Its wall clock, which can be set."""
    boot_id: str | None
    """Identifier that changes with each boot. None if the kernel provides none."""
    boot_seconds: float
    """Seconds since that boot, with suspended time."""


def host_time() -> HostTime:
    """Return the current wall-clock time (Unix seconds), the boot identifier and the seconds since boot of this host."""
    return HostTime(time.time(), boot_id(), _boot_seconds())


class WallClock:
    """Clock based on the time since the host booted."""

    def __init__(self, already: float = 0.0) -> None:
        """`already`: seconds from the beginning of the run to the creation of this object."""
        self._origin = _boot_seconds() - already

    def now(self) -> float:
        """Return the seconds since the run began. Time in which the host was suspended is included."""
        return _boot_seconds() - self._origin


def _boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
