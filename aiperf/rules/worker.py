"""State of a present worker in the rules."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Worker:
    """One placement of accelerators. A worker that returns after a loss has a new number."""

    number: int
    host: str
    ranks: int
    device: str
    joined: float
    round: int = 0
    """Number of trials that it has started. Retries do not count."""
    trial: int | None = None
    nears_end: bool = False
    """True if its trial may be over after the current epoch."""
    waiting: list[int] = field(default_factory=list)
    """Proposals made for it, in the order of their requests."""
    requested: set[int] = field(default_factory=set)
    rejected_in_a_row: int = 0
    """Consecutive rejected requests since the last proposal."""
