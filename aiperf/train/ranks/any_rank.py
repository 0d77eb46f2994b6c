"""A rank as its group's supervisor sees it, on whichever host its process is."""

from __future__ import annotations

import signal
from typing import Protocol

from aiperf.train.ranks.protocol import Failed


class AnyRank(Protocol):
    """`process.RankProcess` is one of this host, `distant_host.DistantRank` one of another."""

    rank: int
    failed: Failed | None
    """What it said of its failure."""
    signal: signal.Signals | None
    """What ended it, once it has ended."""

    @property
    def pid(self) -> int:
        """On its host."""
        ...

    def has_ended(self) -> bool:
        """Whether it has, as far as it is known here."""
        ...

    def end_in_words(self) -> str:
        """How it ended, with the end of what it printed."""
        ...

    def stopped_for(self, now: float) -> float:
        """Seconds for which every look has found it stopped (state T of proc(5)); 0 while it runs."""
        ...
