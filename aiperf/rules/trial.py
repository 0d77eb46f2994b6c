"""A trial, and the states that one can be in.

Data alone: the functions in `aiperf/rules/changes/` change a Trial, and its state is changed by `transitions.enter` only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from aiperf.journal.events import Follows


class TrialState(Enum):
    """Where a trial is between the request for it and its end. The first two are of numbers that are no trial yet, or never."""

    REQUESTED = "requested"
    """A proposal is asked for: there is no trial yet."""
    REJECTED = "rejected"
    """Nothing came of the request."""
    WAITING = "waiting"
    """Proposed, and waits for the worker that it was proposed for."""
    RUNNING = "running"
    LOST = "lost"
    """Its attempt ended with the worker or in it: it is tried again, or ends."""
    FINISHED = "finished"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"
    """The worker that it waited for, or was asked for, is gone."""


@dataclass(slots=True)
class Trial:
    """A proposal, and what became of it. The work log of its images is kept elsewhere (score)."""

    number: int
    round: int
    """Of the worker that starts it; until then that which it was asked for."""
    made_for: int
    """The worker that it is first tried on."""
    parent: int | None
    morphs: list[dict[str, Any]]
    batch_size: int
    can_grow: bool = True
    """Whether it may be a parent."""
    follows: Follows | None = None
    """What it has of a trial of the followed run."""
    state: TrialState = TrialState.REQUESTED
    """Changed by `aiperf.rules.changes.transitions.enter` alone."""
    attempt: int = 0
    losses_of_worker: int = 0
    """Attempts that ended with the worker or in it; those that a killed driver took along are not held against the trial."""
    worker: int | None = None
    epoch: int = 0
    """Finished epochs, counted from the last that can be taken up."""
    saved_epoch: int = 0
    """The last epoch with a checkpoint."""
    unsaved_epoch: int = 0
    """The last epoch of its attempt that the disk is known to have refused."""
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    best_accuracy: float = 0.0
    told_accuracy: float | None = None
    last_word: float = 0.0
    is_prepared: bool = False
    """Whether its attempt has said that the module stands."""
    has_worked: bool = False
    """Whether its attempt has told of work."""
    # Of the epoch in progress, so that sums of words become intervals.
    current_epoch: int = 0
    training_images: int = 0
    validation_images: int = 0
    interval_end: float = 0.0
    sums: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    """busy, communication, validation, input and checkpoint seconds of the attempt."""

    @property
    def epochs(self) -> int | None:
        """That it is to have, exactly, as the trial that it follows; None: its round and its losses say how many."""
        return None if self.follows is None else self.follows.epochs
