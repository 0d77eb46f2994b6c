"""Time as a simulation has it: it stands still until the executor moves it."""

from __future__ import annotations


class VirtualClock:
    """Seconds since the run began. Driver and executor of a simulation share one; so do all incarnations of one run."""

    def __init__(self, already: float = 0.0) -> None:
        self._now = already

    def now(self) -> float:
        """Seconds since the run began."""
        return self._now

    def advance(self, to: float) -> None:
        """Moves time on; it never runs back."""
        assert to >= self._now, f"time would run back from {self._now!r} to {to!r}"
        self._now = to
