"""Presence of a worker in the work log: its times, ranks and idle spans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class WorkerPresence:
    """Time and number of accelerators of a present worker."""

    worker: int
    host: str
    device: str
    ranks: int
    joined: float
    left: float | None = None
    left_reason: str | None = None
    trials: int = 0
    """Number of attempts assigned to it."""
    trial: int | None = None
    """Its current trial."""
    free_since: float | None = None
    """Time of its last trial's last image or of its start. None while it has a trial."""
    attempt_lost: float | None = None
    """Time of the last TrialLost of an attempt on it. None after the next one is prepared."""
    changes: list[tuple[float, int]] = field(default_factory=list)
    """(at, ranks from then on), if the worker lost a host or an accelerator and continued without it."""

    def prepared(self, at: float, ranks: int) -> None:
        """Record an attempt prepared with `ranks` ranks at time `at`. Missing ranks were lost with the attempt before."""
        now = self.changes[-1][1] if self.changes else self.ranks
        if ranks != now:
            since = at if self.attempt_lost is None or ranks > now else self.attempt_lost
            self.changes.append((since, ranks))
        self.attempt_lost = None

    def spans(self) -> Iterator[tuple[float, float | None, int]]:
        """Yield (start, end, number of ranks) of each span with constant ranks, in seconds. End of None: the run's end."""
        begins = [(self.joined, self.ranks), *self.changes]
        ends = [*(at for at, _ in self.changes), self.left]
        for (start, ranks), end in zip(begins, ends, strict=True):
            yield start, end, ranks


@dataclass(frozen=True, slots=True)
class IdleSpan:
    """Time of a worker without completed images, classified by the events at both ends."""

    kind: str
    """'gap': without a trial. 'lost': between the last message of an attempt and its loss."""
    worker: int
    start: float
    end: float
