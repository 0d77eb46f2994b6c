"""Clock of a simulation. Only the executor advances it."""

from __future__ import annotations


class VirtualClock:
    """Seconds since the start of the run. Driver and executor share one clock, also across driver restarts."""

    def __init__(self, already: float = 0.0) -> None:
        self._now = already

    def now(self) -> float:
        """Return the seconds since the start of the run."""
        return self._now

    def advance(self, to: float) -> None:
        """Advance the clock to a time, which must not be in the past."""
        assert to >= self._now, f"time would run back from {self._now!r} to {to!r}"
        self._now = to
