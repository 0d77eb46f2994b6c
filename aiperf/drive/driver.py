"""Main loop of a run. A command is sent only after the events that lead to it are on disk. Each turn writes the disk once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aiperf.accounting.work_log import WorkLog
from aiperf.errors import NoWorkers, RuntimeLost
from aiperf.journal import events
from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import Journal
from aiperf.journal.messages import Drop, Message, Order, ProposalFailed, ProposalReturned, Release, Sum, Train
from aiperf.rng import derive
from aiperf.rules.decide import decide
from aiperf.rules.evolve import evolve
from aiperf.rules.followed import ReplayQueue, answer
from aiperf.rules.interpret import interpret
from aiperf.rules.limits import progress_seconds
from aiperf.rules.procedure import epoch_limit, patience
from aiperf.rules.proposals import check, observations
from aiperf.rules.state import Run
from aiperf.shell_command import resuming
from aiperf.system.describe import boot_id
from searchers.history import History, Observation

TURN_SECONDS = 0.5
"""Maximum wait for messages. The live table and the reaction to Ctrl-C are delayed by at most this time."""
LINGER_SECONDS = 2.0
"""Maximum wait of the driver, after the end of the run, for the last reports of work before the end."""


class Clock(Protocol):
    def now(self) -> float:
        """Return the seconds since the run began."""


@dataclass(frozen=True, slots=True)
class HostTime:
    unix: float
    """Its wall clock, which can be set."""
    boot_id: str | None
    """Identifier that changes with each boot. None if the kernel provides none."""
    boot_seconds: float
    """Seconds since that boot, with suspended time."""


def host_time() -> HostTime:
    """Return the current wall-clock time (Unix seconds), the boot identifier and the seconds since boot of this host."""
    return HostTime(time.time(), boot_id(), _boot_seconds())


class WallClock:
    """Clock based on the time since the host booted."""

    def __init__(self, already: float = 0.0) -> None:
        """`already`: seconds from the beginning of the run to the creation of this object."""
        self._origin = _boot_seconds() - already

    def now(self) -> float:
        """Return the seconds since the run began. Time in which the host was suspended is included."""
        return _boot_seconds() - self._origin


def _boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Executor(Protocol):
    """Interface of a backend that carries out the driver's commands: in this process, on Ray, or under a virtual clock.

    `tests/drive/test_executors.py` contains the contract tests of all implementations.
    """

    def start(self) -> None:
        """Request the start of all workers (process groups that train networks). Return before they are ready.

        Each sends WorkerJoined when it is ready.

        Raises:
            RuntimeLost: a process of Ray ended or did not answer.
        """

    def observe(self, observations: Sequence[Observation]) -> None:
        """Add results of trials to the searcher's history. Proposals that are requested later use them.

        `observations`: results in the sequence of the journal.
        """

    def send(self, order: Order) -> None:
        """Start a command (propose, train, report, remove a checkpoint, release a worker) and return at once.

        Its results are returned by `words`. A command for a lost worker is ignored, and a message reports the loss.

        Raises:
            RuntimeLost: a process of Ray ended or did not answer.
        """

    def messages(self, timeout: float) -> list[Message]:
        """Remove and return the messages that have arrived, in sequence. Wait up to `timeout` seconds for the first one.

        The seconds are those of the driver's clock. The list is empty if no message arrived in time. The
        executor that trains in this process (inline) may exceed the time.

        Raises:
            NoWorkers: no worker is up and none can be started.
            RuntimeLost: a process of Ray ended or did not answer.
        """

    def close(self) -> None:
        """End all work and release all resources. Unread messages are lost."""


@dataclass(slots=True)
class Driver:
    """Main process of a run (driver), from now to the end of the run. Use: `Driver(...).drive()`."""

    run: Run
    work_log: WorkLog
    history: History
    journal: Journal
    executor: Executor
    clock: Clock
    after_turn: Callable[[Driver], None] = lambda driver: None
    after_commit: Callable[[Sequence[AnyEvent]], None] = lambda events: None
    """Called with the events of a turn once they are in the journal."""
    first_worker_seconds: float = 300.0
    """Maximum time until the first worker of a session is up."""
    replay: ReplayQueue | None = None
    """Trials of the list that this run trains. None if this run searches by itself."""
    interrupted: bool = False
    """Set from outside (Ctrl-C): the run is ended cleanly at the next turn."""
    _events: list[AnyEvent] = field(default_factory=list)
    _outbox: list[Order | list[Observation]] = field(default_factory=list)
    """Commands and observations for the executor, in the sequence of the events. A proposal therefore never sees an
    observation that was recorded after its request."""

    def interrupt(self) -> None:
        self.interrupted = True

    def drive(self) -> None:
        """Run the main loop until the run has ended: its time is over, `interrupted` was set, or there is nothing more to do.

        Too many corrupt images also end a run.

        Raises:
            NoWorkers: no worker (a process group that trains networks) started within `first_worker_seconds`, or all are
                lost.
            RuntimeLost: a process of Ray ended or did not answer.
            JournalNotWritten: an event could not be written. No command that depends on it was sent.
            JournalTakenAway: another program removed or changed the journal.
        """
        began, known = self.clock.now(), self.run.next_worker
        while self.run.ended is None:
            self._turn(self._messages())
            if self.run.next_worker == known and self.clock.now() - began > self.first_worker_seconds:
                self._end("no workers")
                self._commit()
                raise NoWorkers(
                    f"a run needs at least one worker, but none came up within {self.first_worker_seconds:.0f} s. "
                    "The executor's messages are above, and dry_run=true shows the requested machines. "
                    f"To resume when there are machines: {resuming(self.journal.path.parent)}"
                )
            self.after_turn(self)

    def _messages(self) -> list[Message]:
        try:
            return self.executor.messages(max(0.0, min(TURN_SECONDS, self.run.duration - self.clock.now())))
        except RuntimeLost:
            if not self.interrupted:
                raise
            return []  # a scheduler that cancels the job sends its signal to all processes, also to Ray's

    def _turn(self, messages: list[Message]) -> None:
        self._record(messages)
        if self.interrupted and self.run.ended is None:
            self._end("interrupted")
        while decisions := decide(self.run, self.clock.now(), self.replay):
            for decision in decisions:
                self._carry_out(decision)
        self._commit()

    def _record(self, words: list[Message]) -> None:
        for word in words:
            for event in self._interpret(word):
                self._take(event)

    def _interpret(self, message: Message) -> list[AnyEvent]:
        now = self.clock.now()
        match message:
            case ProposalReturned():
                request = self.run.requests.get(message.number)
                return [] if request is None else [check(self.history, request, message, now)]
            case ProposalFailed():
                if message.number not in self.run.requests:
                    return []
                by: events.RejectedBy = "searcher" if message.was_made else "generator"
                return [events.TrialRejected(at=now, number=message.number, by=by, reason=message.reason)]
            case _:
                return interpret(self.run, message, now)

    def _take(self, event: AnyEvent) -> None:
        observed = observations(self.run, event)
        evolve(self.run, event)
        self.work_log.take(event)
        if self.replay is not None:
            self.replay.take(event)
        if observed:
            self.history.observe(observed)
            self._outbox.append(observed)
        self._events.append(event)

    def _commit(self) -> None:
        self.journal.append(self._events)
        self.after_commit(self._events)
        self._events = []
        outbox, self._outbox = self._outbox, []
        for item in outbox:
            if isinstance(item, list):
                self.executor.observe(item)
            else:
                self.executor.send(item)

    def _carry_out(self, decision: AnyEvent) -> None:
        run = self.run
        if isinstance(decision, events.RunEnded):
            self._end(decision.reason)
            return
        self._take(decision)
        match decision:
            case events.TrialStarted():
                self._outbox.append(train_order(run, decision))
            case events.ProposalRequested():
                if self.replay is not None:
                    ranks = run.workers[decision.worker].ranks
                    self._take(answer(self.replay.work, self.history, decision, ranks, self.clock.now()))
                    return
                self._outbox.append(decision)
            case events.WorkerLost():
                self._outbox.append(Release(worker=decision.worker, reason=decision.reason))
            case events.CheckpointDropped(cause="not best"):
                self._outbox.append(Drop(trial=decision.trial))
            case _:
                pass

    def _end(self, reason: str) -> None:
        """Process the last reports of the workers, then write RunEnded. Before it they are asked to report."""
        self._commit()
        last, run = self.run.duration, self.run
        if reason != "duration":
            last = self.clock.now()
            for trial in run.running:
                worker = run.trials[trial].worker
                assert worker is not None, "a trial that is trained has a worker"
                self.executor.send(Sum(worker=worker))
        until = self.clock.now() + LINGER_SECONDS
        while (left := until - self.clock.now()) > 0:
            at_work = [run.trials[trial] for trial in run.running]
            # A trial that is still being prepared has nothing to report.
            if all(trial.interval_end >= last for trial in at_work if trial.is_prepared or trial.has_worked):
                break
            try:
                messages = self.executor.messages(min(left, 0.1))
            except RuntimeLost:
                break
            self._record(messages)
        self._take(events.RunEnded(at=self.clock.now(), reason=reason))


def train_order(run: Run, start: events.TrialStarted) -> Train:
    """Return the command to train that belongs to the event `start`, by which a trial is assigned to a worker."""
    trial, schedule = run.trials[start.trial], run.schedule
    edges = [edge - start.at for edge in (run.started.warmup_seconds, run.duration) if edge > start.at]
    epochs = epoch_limit(schedule, trial.round) if trial.epochs is None else trial.epochs
    seed = derive(run.started.seed, "trial", trial.number) if trial.follows is None else trial.follows.seed
    lineage, morphs, parent = run.lineage(trial.parent), tuple(trial.morphs), trial.parent
    if not run.inherits or trial.follows is not None:
        lineage, morphs, parent = lineage + morphs, (), None
    return Train(
        trial=trial.number,
        attempt=start.attempt,
        worker=start.worker,
        lineage=lineage,
        morphs=morphs,
        parent=parent,
        first_epoch=start.epoch,
        last_epoch=epochs,
        patience=patience(schedule, trial.round) if trial.follows is None else epochs + 1,
        improvement=schedule.improvement,
        losses=tuple(trial.losses),
        batch_size=trial.batch_size,
        seed=seed,
        progress_seconds=progress_seconds(run.limits, len(run.workers)),
        edges=tuple(edges),
    )
