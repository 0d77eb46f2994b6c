"""Start or resumption of a run, until its journal (event log) is complete."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from aiperf import interrupts
from aiperf.accounting.work_log import WorkLog
from aiperf.config import RunConf, from_plain
from aiperf.drive.checkpoint_clearing import BestEpoch, clear, forget, sweep
from aiperf.drive.driver import Driver, Executor, HostTime, WallClock, host_time
from aiperf.errors import CannotResume, JournalInUse, NoWorkers, RunStopped, RuntimeLost
from aiperf.journal.events import SCHEMA, AnyEvent, NodeChecked, RunResumed, RunStarted, ScorePredicted
from aiperf.journal.journal import NAME, Cut, Journal, JournalReading, folding, locked, read
from aiperf.journal.run_folder import run_folder
from aiperf.own_files import NotOwn, read_own
from aiperf.planning.plan import Plan, first_event, folder_of, make_folder, require_prediction
from aiperf.ranking.levels import is_of_step
from aiperf.rules.evolve import evolve
from aiperf.rules.followed import Following, ReplayQueue, followed_again
from aiperf.rules.limits import PACKAGED
from aiperf.rules.proposals import check_rules, observations
from aiperf.rules.search_space import space_of
from aiperf.rules.state import Run, begin
from aiperf.shell_command import resuming
from aiperf.submission.announced_run import use_announcement
from aiperf.system.describe import describe, folders_of, versions
from aiperf.system.source import revision
from aiperf.train.checkpoints.checkpoint_files import CHECKPOINTS, CheckpointFolder
from cluster.place import HEAD_FILE
from searchers.history import History, Observation

END_REQUEST = "end-requested"
"""Name of a file in the run's folder that requests the same end as Ctrl-C, from any host that shares the folder."""


LOCK_SECONDS = 1.0
"""Seconds between two attempts to lock a journal that another driver holds."""


@dataclass(slots=True)
class SessionState:
    """State of a run that a driver (main process of the run) needs, computed from the events of the journal."""

    run: Run
    work_log: WorkLog
    history: History
    observed: list[Observation] = field(default_factory=list)
    replay: ReplayQueue | None = None
    """Trials of the list that this run trains. None if this run searches by itself."""

    @classmethod
    def at(cls, first: RunStarted, follows: Following | None = None) -> SessionState:
        """Return the state after the first event of a journal. None if this run searches by itself."""
        replay = None if follows is None else ReplayQueue(follows.work, follows.places)
        state = cls(begin(first), WorkLog(), History(space_of(first)), replay=replay)
        state.work_log.take(first)
        return state

    def take(self, event: AnyEvent) -> None:
        observed = observations(self.run, event)
        evolve(self.run, event)
        self.work_log.take(event)
        if self.replay is not None:
            self.replay.take(event)
        self.history.observe(observed)
        self.observed += observed


ExecutorOf = Callable[[RunConf, Path, SessionState], Executor]
"""Function that starts an executor for a configuration, the run's folder and its state."""


def run_session(
    plan: Plan,
    executor_of: ExecutorOf,
    after_turn: Callable[[Driver], None],
    folder: Path | None = None,
    checks: Sequence[NodeChecked] = (),
) -> Path:
    sealed: list[AnyEvent] = [*checks, *_sealed_prediction(plan.conf, checks)]
    began = host_time()
    folder = folder or make_folder(folder_of(plan.conf, began.unix))
    first = msgspec.structs.replace(
        first_event(plan, folder.name, began.unix, versions=versions() | revision(), machine=_driver_host(plan.conf)),
        boot_id=began.boot_id,
        boot_seconds=began.boot_seconds,
    )
    first = use_announcement(plan.conf, folder, first)
    with Journal(folder / NAME) as journal:
        state = SessionState.at(first, plan.follows)
        for event in sealed:
            state.take(event)
        journal.append([first, *sealed])
        already = host_time().boot_seconds - began.boot_seconds
        _drive(plan.conf, folder, state, journal, executor_of, already, after_turn)
    clear(state.run, state.work_log, folder, plan.conf.storage.checkpoints)
    return folder


def _sealed_prediction(conf: RunConf, checks: Iterable[NodeChecked]) -> list[ScorePredicted]:
    """Return the event of the prediction that `conf.predict` names, none without it."""
    if conf.predict is None:
        return []
    content = require_prediction(conf, checks)
    return [ScorePredicted(at=0.0, prediction=content)]


def _driver_host(conf: RunConf) -> dict[str, Any]:
    """Describe the driver's host, with the file systems of the run's folders."""
    folders = folders_of(Path(conf.runs), getattr(conf.dataset, "root", None))
    described: dict[str, Any] = msgspec.to_builtins(describe(folders))
    return described


@dataclass(frozen=True, slots=True)
class Resumable:
    """Run that can be resumed at the end of its journal, with its state there."""

    folder: Path
    conf: RunConf
    state: SessionState
    reading: JournalReading
    session: RunStarted | RunResumed
    """First event of the last driver."""


def resumable(conf: RunConf) -> Resumable:
    """Return the run of option resume=RUN, with its state at the end of its journal."""
    assert conf.resume is not None
    folder = run_folder(conf.resume, conf.runs)
    reader = read(folder, conf.resume_until)
    lines = iter(reader)
    first = next(lines, None)
    if not isinstance(first, RunStarted):
        raise CannotResume(f"the journal in '{folder}' has no complete line. Begin another run: python -m aiperf")
    if first.simulated:
        raise CannotResume(
            f"'{folder}' is a simulated run, which cannot be resumed. Start it again: an equal seed gives an equal journal"
        )
    check_rules(first)
    with folding(reader):
        follows = None
        if first.follows is not None:
            place = conf.follow or first.follows.path
            earlier = Path(place) if place in PACKAGED else run_folder(place, conf.runs)
            follows = followed_again(first.follows, earlier, is_of_step)
        conf, state = from_plain(first.config), SessionState.at(first, follows)
        session: RunStarted | RunResumed = first
        for event in lines:
            state.take(event)
            if isinstance(event, RunResumed):
                session = event
    if state.run.ended == "duration":
        raise CannotResume(
            f"the run '{folder}' is finished: its declared {first.duration_seconds:.0f} s are over. "
            "Begin another: python -m aiperf"
        )
    if reader.reading.torn:
        print(
            f"the last line of '{folder / NAME}' was torn (the driver was killed while writing). It is moved to a file "
            "next to it"
        )
    return Resumable(folder, conf, state, reader.reading, session)


def require_free(folder: Path, patience_seconds: float = 0.0) -> None:
    """Wait up to `patience_seconds` until no driver (main process of a run) writes the journal in `folder`."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            with (folder / NAME).open("r+b") as file:
                locked(file, folder / NAME)
            return
        except JournalInUse:
            if time.monotonic() >= deadline:
                raise
        time.sleep(LOCK_SECONDS)


def resume(
    resumable: Resumable,
    executor_of: ExecutorOf,
    after_turn: Callable[[Driver], None],
    checks: Sequence[NodeChecked] = (),
) -> Path:
    """Continue a run that was killed or ended early, until its end."""
    state = resumable.state
    with Journal(resumable.folder / NAME, resumable.reading) as journal:
        resumed = resumption(state.run, resumable.session, host_time(), journal.cut)
        if resumed.rolled_back_lines and journal.cut is not None:
            print(
                f"{resumed.rolled_back_lines} lines after line {journal.lines} are rolled back, and moved to "
                f"'{journal.cut.kept}'. A run that was rolled back is outside the ranking"
            )
        lines: list[AnyEvent] = [resumed, *(msgspec.structs.replace(event, at=resumed.at) for event in checks)]
        for event in lines:
            state.take(event)
        journal.append(lines)
        if (warning := forget(resumable.folder)) is not None:
            print(warning)
        sweep(state.run, resumable.folder / CHECKPOINTS)
        _drive(resumable.conf, resumable.folder, state, journal, executor_of, resumed.at, after_turn)
    clear(state.run, state.work_log, resumable.folder, resumable.conf.storage.checkpoints)
    return resumable.folder


def resumption(run: Run, session: RunStarted | RunResumed, now: HostTime, cut: Cut | None = None) -> RunResumed:
    """Return the event that records a resumption, with the time on the run's clock at which the run continues."""
    by_wall = now.unix - run.started.started_unix
    by_boot = None
    if session.boot_id is not None and session.boot_id == now.boot_id and session.boot_seconds is not None:
        by_boot = session.at + now.boot_seconds - session.boot_seconds
    at = max(run.at, by_wall if by_boot is None else by_boot)
    return RunResumed(
        at=at,
        down_seconds=at - run.at,
        clock_stepped_back_seconds=max(0.0, at - by_wall),
        clock_stepped_forward_seconds=0.0 if by_boot is None else max(0.0, by_wall - at),
        versions=versions() | revision(),
        machine=msgspec.to_builtins(describe()),
        schema=SCHEMA,
        boot_id=now.boot_id,
        boot_seconds=now.boot_seconds,
        rolled_back_lines=0 if cut is None else cut.lines,
        cut_sha256=None if cut is None else cut.sha256,
    )


def _drive(
    conf: RunConf,
    folder: Path,
    state: SessionState,
    journal: Journal,
    executor_of: ExecutorOf,
    already: float,
    after_turn: Callable[[Driver], None],
) -> None:
    clock = WallClock(already)
    interrupts.say_when_ended(f". To resume the run: {resuming(folder)}")
    request = folder / END_REQUEST
    request.unlink(missing_ok=True)  # of a driver before this one
    own_head = _content(folder / HEAD_FILE)

    def look(driver: Driver) -> None:
        is_replaced = own_head is not None and _content(folder / HEAD_FILE) not in (own_head, None)
        driver.interrupted = driver.interrupted or request.exists() or is_replaced
        after_turn(driver)

    try:
        with ExitStack() as stack:
            executor = executor_of(conf, folder, state)
            stack.callback(executor.close)
            executor.observe(state.observed)
            executor.start()
            driver = Driver(
                state.run,
                state.work_log,
                state.history,
                journal,
                executor,
                clock,
                look,
                BestEpoch(CheckpointFolder(folder / CHECKPOINTS), state.work_log).take,
                replay=state.replay,
            )
            with interrupts.noted(driver.interrupt):
                driver.drive()
        if state.run.ended == "duration":
            interrupts.say_when_ended("")
        sweep(state.run, folder / CHECKPOINTS)
    except RuntimeLost as lost:
        raise RunStopped(folder, str(lost)) from lost
    except NoWorkers as none:
        raise RunStopped(folder, str(none)) from none


def _content(path: Path) -> bytes | None:
    try:
        return read_own(path)
    except (FileNotFoundError, NotOwn):
        return None
