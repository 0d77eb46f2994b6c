"""What the work log keeps of a worker: when it was there, with what, and when it had nothing to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aiperf.accounting.windows import Window


@dataclass(slots=True)
class Presence:
    """When a worker was there, with how many accelerators."""

    worker: int
    host: str
    device: str
    ranks: int
    joined: float
    left: float | None = None
    left_reason: str | None = None
    trials: int = 0
    """Attempts that it was given."""
    trial: int | None = None
    """The one that it holds."""
    free_since: float | None = None
    """When its last trial's last image was done, or it joined; None while it holds a trial."""


@dataclass(frozen=True, slots=True)
class IdleSpan:
    """Time of a worker in which no image was done, by the events at both its ends."""

    kind: str
    """'gap': it had no trial; 'lost': between an attempt's last word and the loss of it."""
    worker: int
    ranks: int
    start: float
    end: float


def seconds_there(presences: Iterable[Presence], inside: Window) -> dict[int, float]:
    """Of each worker that was there in a window, for how long."""
    found: dict[int, float] = {}
    for one in presences:
        until = inside.end if one.left is None else min(one.left, inside.end)
        if until > max(one.joined, inside.start):
            found[one.worker] = found.get(one.worker, 0.0) + until - max(one.joined, inside.start)
    return found
