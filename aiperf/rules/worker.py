"""A worker that is present, as the rules see it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Worker:
    """One placement of accelerators; a worker that comes back after a loss has a new number."""

    number: int
    host: str
    ranks: int
    device: str
    joined: float
    round: int = 0
    """Trials it has started, attempts not counted anew."""
    trial: int | None = None
    nears_end: bool = False
    """Whether the trial that it trains may be over after the epoch in progress."""
    waiting: list[int] = field(default_factory=list)
    """Proposals made for it, in the order in which they were asked for, whatever order they came in."""
    requested: set[int] = field(default_factory=set)
    rejected_in_a_row: int = 0
    """Of its requests, since the last of which something came."""
