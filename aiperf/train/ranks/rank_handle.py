"""Interface of a rank to its group's supervisor, on any host."""

from __future__ import annotations

import signal
from typing import Protocol

from aiperf.train.ranks.protocol import Failed


class AnyRank(Protocol):
    """A rank: `process.RankProcess` on this host, `distant_host.DistantRank` on another."""

    rank: int
    failed: Failed | None
    """Failure that the rank reported."""
    signal: signal.Signals | None
    """Signal that ended it. None if it runs or ended without a signal."""

    @property
    def pid(self) -> int:
        """Return its process id on its host."""
        ...

    def has_ended(self) -> bool:
        """Return whether it has ended, as far as known here."""
        ...

    def end_in_words(self) -> str:
        """Describe its end, with the last lines of its log."""
        ...

    def stopped_for(self, now: float) -> float:
        """Return the seconds since the first of consecutive polls that found it stopped (state T of proc(5)).

        0 while it runs.
        """
        ...
