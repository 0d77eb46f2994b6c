"""State of a run after a line of its journal: the complete input of `decide`. Only `evolve` changes it."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from aiperf.journal.events import CLOCKS, FollowedValues, ProposalRequested, RunStarted
from aiperf.journal.legality import Presence, TrialState
from aiperf.rules.limits import LimitsConf, ScheduleConf, inherits, limits_of, schedule_of

NO_SUMS = (0.0,) * len(CLOCKS)


@dataclass(slots=True)
class Worker:
    """State of a present worker. One that returns after a loss has a new number."""

    number: int
    host: str
    ranks: int
    """Data-parallel processes, one per accelerator."""
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


@dataclass(slots=True)
class Trial:
    number: int
    round: int
    """Round of the worker that starts it. Before the start: round of the request."""
    made_for: int
    """Worker that trains it first."""
    parent: int | None
    morphs: list[dict[str, Any]]
    batch_size: int
    can_grow: bool = True
    follows: FollowedValues | None = None
    state: TrialState = TrialState.REQUESTED
    """Changed by `aiperf.rules.changes.enter` alone."""
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
    """Judged loss of each epoch (`procedure.judged_loss`)."""
    accuracies: list[float] = field(default_factory=list)
    best_accuracy: float = 0.0
    reported_accuracy: float | None = None
    last_message: float = 0.0
    is_prepared: bool = False
    has_worked: bool = False
    # Sums of the current epoch, from which intervals are computed.
    current_epoch: int = 0
    training_images: int = 0
    validation_images: int = 0
    interval_end: float = 0.0
    sums: tuple[float, ...] = NO_SUMS
    """busy, communication, validation, input and checkpoint seconds of the attempt."""

    @property
    def epochs(self) -> int | None:
        """Exact number of epochs of a trial that repeats one of an earlier run. None if its round and its losses decide."""
        return None if self.follows is None else self.follows.epochs


@dataclass(slots=True)
class Run:
    """State of a run: input of `decide`. Created by `begin` and changed by `evolve` only."""

    started: RunStarted
    limits: LimitsConf
    schedule: ScheduleConf
    lines: int = 0
    at: float = 0.0
    ended: str | None = None
    workers: dict[int, Worker] = field(default_factory=dict)
    trials: dict[int, Trial] = field(default_factory=dict)
    requests: dict[int, ProposalRequested] = field(default_factory=dict)
    next_number: int = 0
    next_worker: int = 0
    departed: set[int] = field(default_factory=set)
    """Lost workers. A late WorkerJoined message of one of them is ignored."""
    idle: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Workers without a trial, longest idle first."""
    ready: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Idle workers with a waiting proposal."""
    with_demand: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Workers with proposal demand."""
    lost: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials to be retried, in the order of their loss."""
    ending: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Lost trials that are not retried: failed, or lost after their last epoch."""
    running: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials being trained, longest without a message first."""
    droppable: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Trials whose checkpoints no trial will inherit."""
    orphaned: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Waiting trials whose parents' weights are missing."""
    absent: OrderedDict[int, tuple[str, int]] = field(default_factory=OrderedDict)
    """Host and round of lost workers without a successor, in the order of their loss. New workers continue their rounds."""
    absent_on: dict[str, deque[int]] = field(default_factory=dict)
    """The same workers by host."""
    children_due: dict[int, int] = field(default_factory=dict)
    """Number of unsettled trials that may need a parent's weights, by parent."""
    best: list[tuple[float, int]] = field(default_factory=list)
    """Heap of (reported accuracy, −number) of the retained trials that can grow. Parents are chosen among them."""
    best_full: tuple[float, int] | None = None
    """(reported accuracy, −number) of the best trial that cannot grow. It has no children but may be the result of the run.
    """
    retained: set[int] = field(default_factory=set)
    start: int | None = None
    """Proposal of the starting network that is requested, waits, is trained or has finished. None if there is none."""
    start_failures: int = 0
    exhausted: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Workers that reached `limits.rejections` consecutive rejected proposals. They are skipped until a trial finishes."""
    finished: int = 0
    failed: int = 0
    settled: int = 0
    highest_round: int = 0
    ceiling: int | None = None
    best_accuracy: float | None = None
    corrupt: set[str] = field(default_factory=set)
    """Names of the images skipped since the start or the last resume. Files may be repaired in between."""

    def state_of(self, number: int) -> TrialState | None:
        if (trial := self.trials.get(number)) is not None:
            return trial.state
        if number in self.requests:
            return TrialState.REQUESTED
        return TrialState.REJECTED if 0 <= number < self.next_number else None

    def attempt_of(self, trial: int) -> int:
        return self.trials[trial].attempt

    def made_for(self, trial: int) -> int:
        return self.trials[trial].made_for

    def presence_of(self, worker: int) -> Presence:
        if worker in self.workers:
            return "idle" if worker in self.idle else "training"
        return "lost" if worker in self.departed else "unknown"

    @property
    def duration(self) -> float:
        return self.started.duration_seconds

    @property
    def most_corrupt_images(self) -> int | None:
        """Largest number of corrupt images before the run ends (`dataset.corrupt_limit`). None for data without files."""
        most: int | None = self.started.config.get("dataset", {}).get("corrupt_limit")
        return most

    @property
    def inherits(self) -> bool:
        return inherits(self.started.config)

    @property
    def start_is_due(self) -> bool:
        """True if the next request that is no spare must be for the starting network."""
        return self.start is None and self.start_failures < self.limits.attempts

    def short_of(self, worker: Worker) -> tuple[int, int]:
        """Return the proposals that a worker lacks: (for its next trial, as spares, which follow the first finished trial)."""
        is_due = worker.trial is None or worker.nears_end
        held = len(worker.requested) + len(worker.waiting)
        spares = 0 if self.started.follows is not None else (self.limits.spares if self.finished else 0)
        missing = max(0, is_due + spares - held)
        due = min(missing, int(is_due))
        return due, missing - due

    @property
    def room_for_trials(self) -> int | None:
        """Number of further proposals before `limits.trials`, those in progress counted. None without a limit."""
        if self.limits.trials is None:
            return None
        in_progress = len(self.requests) + len(self.trials) - self.settled
        return max(0, self.limits.trials - self.finished - in_progress)

    def next_of(self, worker: Worker) -> int:
        """Return the starting network if it waits, otherwise the latest request, which was made from the longest history."""
        return self.start if self.start is not None and self.start in worker.waiting else worker.waiting[-1]

    def lineage(self, number: int | None) -> tuple[dict[str, Any], ...]:
        """Return all morphs from the starting graph to the graph of a trial. Empty for None."""
        morphs: list[dict[str, Any]] = []
        while number is not None:
            trial = self.trials[number]
            morphs[:0] = trial.morphs
            number = trial.parent
        return tuple(morphs)


def begin(event: RunStarted) -> Run:
    """Return the state after the first line. Raise BadConfiguration if a limit or the schedule is out of range."""
    return Run(started=event, limits=limits_of(event), schedule=schedule_of(event), lines=1)
