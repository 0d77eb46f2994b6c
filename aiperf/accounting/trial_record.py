"""Record of a trial in the work log: operations per image, place and time of training, and outcome."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations of one image of a trial's architecture."""

    training: int
    """Forward and backward."""
    validation: int
    tensor_training: int
    """Convolutions and matrix products alone."""
    tensor_validation: int


@dataclass(slots=True)
class TrialRecord:
    """Place, time and outcome of a trial."""

    operations: Operations
    proposed_for: int
    """Round of its proposal. A spare may be trained in a later round."""
    round: int
    is_of_start: bool
    """True for a trial of the starting network."""
    outcome: str = "waiting"
    """'waiting', 'training', 'lost', 'failed', or the reason of its end."""
    reason: str | None = None
    """Reason of its last loss or of its failure."""
    worker: int | None = None
    """Worker of its last attempt."""
    attempts: int = 0
    started: float | None = None
    """Start of its first attempt."""
    ended: float | None = None
    """End of its last attempt. None while it waits or is trained."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """Time of an attempt before its first image."""

    trial: int
    worker: int
    at: float
    """End of the preparation."""
    started: float
    """Time of the order."""
    start_seconds: float
    """Seconds for building the module and loading its weights."""
    compile_seconds: float
    precision: str
