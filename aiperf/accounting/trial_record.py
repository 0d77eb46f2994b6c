"""What the work log keeps of a trial: what its images cost, where and when it was trained, and how that ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operations:
    """Of one image of a trial's architecture."""

    training: int
    """Forward and backward."""
    validation: int
    tensor_training: int
    """Convolutions and matrix products alone."""
    tensor_validation: int


@dataclass(slots=True)
class TrialRecord:
    """What became of a trial, as far as the journal tells: where and when it was trained."""

    operations: Operations
    proposed_for: int
    """The round whose rules of proposing hold for it; a spare may be trained in a later one."""
    round: int
    is_of_start: bool
    """Whether it is of the starting network."""
    outcome: str = "waiting"
    """'waiting', 'training', 'lost', 'failed', or why it finished."""
    reason: str | None = None
    """Of its last loss, or of its failure."""
    worker: int | None = None
    """Of its last attempt."""
    attempts: int = 0
    started: float | None = None
    """Its first attempt."""
    ended: float | None = None
    """Its last attempt; None while it waits or is trained."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """What an attempt spent before its first image."""

    trial: int
    worker: int
    at: float
    """When it was over."""
    started: float
    """When the order was given."""
    start_seconds: float
    """Building the module and bringing its weights there."""
    compile_seconds: float
    precision: str
