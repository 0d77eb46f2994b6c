"""The state of a run: all that decide may look at, as a fold of its journal.

A value alone: `aiperf.rules.evolve` changes it, by the functions in `aiperf/rules/changes/`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from aiperf.journal.events import ProposalRequested, RunStarted
from aiperf.rules.limits import LimitsConf, ScheduleConf, limits_of, schedule_of
from aiperf.rules.stories import Stories
from aiperf.rules.trial import Trial
from aiperf.rules.worker import Worker


@dataclass(slots=True)
class Run:
    """All that decide may look at. Made by RunStarted, changed by evolve alone."""

    started: RunStarted
    limits: LimitsConf
    schedule: ScheduleConf
    lines: int = 0
    at: float = 0.0
    ended: str | None = None
    workers: dict[int, Worker] = field(default_factory=dict)
    """Those present."""
    trials: dict[int, Trial] = field(default_factory=dict)
    requests: dict[int, ProposalRequested] = field(default_factory=dict)
    next_number: int = 0
    next_worker: int = 0
    departed: set[int] = field(default_factory=set)
    """Workers that are gone: a late word that one of them is up raises nobody from the dead."""
    idle: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Workers without a trial, longest idle first."""
    ready: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Idle workers for which a proposal waits."""
    hungry: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Workers that are short of proposals and may be asked."""
    lost: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials to be tried again, longest lost first."""
    ending: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Lost trials that are not to be tried again: given up, or lost after their last epoch."""
    running: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials being trained, longest silent first."""
    droppable: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials whose checkpoints nobody will inherit from."""
    orphaned: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials that wait for a worker, and whose parents' weights are gone."""
    absent: OrderedDict[int, tuple[str, int]] = field(default_factory=OrderedDict)
    """Host and round of the workers that are gone without a successor, longest gone first: those that join go on with them."""
    absent_on: dict[str, deque[int]] = field(default_factory=dict)
    """The same by host."""
    children_due: dict[int, int] = field(default_factory=dict)
    """How many unsettled trials still may need a parent's weights."""
    best: list[tuple[float, int]] = field(default_factory=list)
    """Heap of (told accuracy, −number) of the retained that can grow: parents are chosen among them."""
    best_full: tuple[float, int] | None = None
    """The same of the best that cannot grow: nobody will inherit from it, but it may be what the run found."""
    retained: set[int] = field(default_factory=set)
    start: int | None = None
    """The proposal of the starting network that is requested, waits, is trained or has finished; None: there is none."""
    start_failures: int = 0
    """Trials of the starting network that were given up."""
    exhausted: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Workers of whose requests so many in a row came to nothing as the limit says: they are asked no more, until a trial that
    finishes gives the search something to go on."""
    finished: int = 0
    failed: int = 0
    highest_round: int = 0
    ceiling: int | None = None
    best_accuracy: float | None = None
    corrupt: set[str] = field(default_factory=set)
    """Names of the images that were skipped since the run began or was resumed: files may be repaired in between."""
    stories: Stories = field(default_factory=Stories)
    """How each trial came to its state."""

    @property
    def duration(self) -> float:
        """Seconds from the run's beginning to its declared end."""
        return self.started.duration_seconds

    @property
    def most_corrupt_images(self) -> int | None:
        """With more of them the run ends; None: the data set does not lie in files."""
        most: int | None = self.started.config.get("dataset", {}).get("corrupt_limit")
        return most

    @property
    def start_is_due(self) -> bool:
        """Whether the next request is to be for the starting network: it is trained to its end, or given up as often as any
        trial is attempted."""
        return self.start is None and self.start_failures < self.limits.attempts

    def short_of(self, worker: Worker) -> tuple[int, int]:
        """How many proposals are to be asked for, as it stands: (for its next trial, as spares).

        One for the next trial where it trains none, or one that may be over after the epoch in progress; besides, as many
        spares as the limits say, once a trial of the run has finished: before that there is nothing to propose by. A run that
        follows another has no spares.
        """
        is_due = worker.trial is None or worker.nears_end
        held = len(worker.requested) + len(worker.waiting)
        spares = 0 if self.started.follows is not None else (self.limits.spares if self.finished else 0)
        missing = max(0, is_due + spares - held)
        due = min(missing, int(is_due))
        return due, missing - due

    def next_of(self, worker: Worker) -> int:
        """Which of the proposals that wait for a worker it is to train: the starting network, else the one asked for last,
        which knows most."""
        return self.start if self.start is not None and self.start in worker.waiting else worker.waiting[-1]

    def lineage(self, number: int | None) -> tuple[dict[str, Any], ...]:
        """All morphs from the starting graph to a trial's graph."""
        morphs: list[dict[str, Any]] = []
        while number is not None:
            trial = self.trials[number]
            morphs[:0] = trial.morphs
            number = trial.parent
        return tuple(morphs)


def begin(event: RunStarted) -> Run:
    """The state after the first line."""
    return Run(started=event, limits=limits_of(event), schedule=schedule_of(event), lines=1)
