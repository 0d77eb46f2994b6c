"""Trial and its progress.

The functions in `aiperf/rules/changes/` change a Trial. Only `transitions.enter` changes its state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from aiperf.journal.events import FollowedValues
from aiperf.journal.legality import TrialState


@dataclass(slots=True)
class Trial:
    """Proposal and its progress. The score's work log counts its images."""

    number: int
    round: int
    """Round of the worker that starts it. Before the start: round of the request."""
    made_for: int
    """Worker that trains it first."""
    parent: int | None
    morphs: list[dict[str, Any]]
    batch_size: int
    can_grow: bool = True
    """True if it may be a parent."""
    follows: FollowedValues | None = None
    """Values of the trial that it follows."""
    state: TrialState = TrialState.REQUESTED
    """Changed by `aiperf.rules.changes.transitions.enter` alone."""
    attempt: int = 0
    losses_of_worker: int = 0
    """Attempts that ended alone or with the worker. Losses with a killed driver do not count."""
    worker: int | None = None
    epoch: int = 0
    """Finished epochs since the last resumable one."""
    saved_epoch: int = 0
    """Last epoch with a checkpoint."""
    unsaved_epoch: int = 0
    """Last epoch of its attempt whose checkpoint could not be written."""
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    best_accuracy: float = 0.0
    reported_accuracy: float | None = None
    last_message: float = 0.0
    is_prepared: bool = False
    """True if its attempt has reported that the module is ready."""
    has_worked: bool = False
    """True if its attempt has reported work."""
    # Sums of the current epoch, from which intervals are computed.
    current_epoch: int = 0
    training_images: int = 0
    validation_images: int = 0
    interval_end: float = 0.0
    sums: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    """busy, communication, validation, input and checkpoint seconds of the attempt."""

    @property
    def epochs(self) -> int | None:
        """Exact number of epochs of a following trial. None if its round and its losses decide."""
        return None if self.follows is None else self.follows.epochs
