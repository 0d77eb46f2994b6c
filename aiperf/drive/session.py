"""One session of a run: from a configuration to a finished journal. New runs, and those that are taken up again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from aiperf import interrupts
from aiperf.accounting.work_log import WorkLog
from aiperf.config import RunConf, from_plain
from aiperf.drive.checkpoint_clearing import clear, forget
from aiperf.drive.checkpoint_sweep import sweep
from aiperf.drive.driver import Driver
from aiperf.drive.executor import Executor
from aiperf.drive.run_clock import HostTime, WallClock, host_time
from aiperf.errors import CannotResume, NoWorkers, RunStopped, RuntimeLost
from aiperf.journal.events import SCHEMA, AnyEvent, FollowedRun, NodeChecked, RunResumed, RunStarted
from aiperf.journal.journal import NAME, Cut, Journal, Reading, folding, read
from aiperf.journal.local_journal import open_journal, to_be_read
from aiperf.journal.run_folder import run_folder
from aiperf.planning.following import Following, followed_again
from aiperf.planning.plan import Plan, first_event, new_folder
from aiperf.rules.agenda import Agenda
from aiperf.rules.evolve import evolve
from aiperf.rules.observations import observations
from aiperf.rules.search_space import space_of
from aiperf.rules.state import Run, begin
from aiperf.rules.verify_proposals import check_rules
from aiperf.submission.announced_run import use_announcement
from aiperf.system.describe import describe, folders_of, versions
from aiperf.system.source import revision
from aiperf.train.checkpoint_files import CHECKPOINTS
from searchers.history import History, Observation

END_REQUEST = "end-requested"
"""A file of this name in a run's folder asks for what Ctrl-C asks for, from any host that shares the folder: a batch script's
word before the time limit, where a signal would reach Ray's own processes too."""


@dataclass(slots=True)
class Standing:
    """All folds of a journal that a driver needs, and the observations that its executor must be given first."""

    run: Run
    work_log: WorkLog
    history: History
    observed: list[Observation] = field(default_factory=list)
    agenda: Agenda | None = None
    """What is left of the run that this one follows; None: it searches."""

    @classmethod
    def at(cls, first: RunStarted, follows: Following | None = None) -> Standing:
        """After the first line. `follows`: the run that it says it follows."""
        agenda = None if follows is None else Agenda(follows.work.trials)
        standing = cls(begin(first), WorkLog(), History(space_of(first)), agenda=agenda)
        standing.work_log.take(first)
        return standing

    def take(self, event: AnyEvent) -> None:
        """One more line."""
        observed = observations(self.run, event)
        evolve(self.run, event)
        self.work_log.take(event)
        if self.agenda is not None:
            self.agenda.take(event)
        self.history.tell(observed)
        self.observed += observed


ExecutorOf = Callable[[RunConf, Path, Standing], Executor]
"""Brings the machines of a configuration up for a run that stands so."""


def run_session(
    plan: Plan,
    executor_of: ExecutorOf,
    after_turn: Callable[[Driver], None],
    folder: Path | None = None,
    checks: Sequence[NodeChecked] = (),
) -> Path:
    """A new run, from its beginning to its end; gives its folder: a new one, or the one that was made for it. Ctrl-C once ends
    it cleanly. `checks`: what preflight found, written right after the first line."""
    began = host_time()
    folder = folder or new_folder(plan.conf, began.unix)
    use_announcement(plan.conf, folder)
    first = msgspec.structs.replace(
        first_event(plan, folder.name, began.unix, versions=versions() | revision(), machine=_driver_host(plan.conf)),
        boot_id=began.boot_id,
        boot_seconds=began.boot_seconds,
    )
    with open_journal(folder, plan.conf.storage.local_journal()) as journal:
        standing = Standing.at(first, plan.follows)
        for event in checks:
            standing.take(event)
        journal.append([first, *checks])
        already = host_time().boot_seconds - began.boot_seconds
        _drive(plan.conf, folder, standing, journal, executor_of, already, after_turn)
    clear(standing.run, folder, plan.conf.storage.checkpoints)
    return folder


def _driver_host(conf: RunConf) -> dict[str, Any]:
    """Described with what the run's folders lie on."""
    folders = folders_of(Path(conf.runs), getattr(conf.dataset, "root", None))
    described: dict[str, Any] = msgspec.to_builtins(describe(folders))
    return described


@dataclass(frozen=True, slots=True)
class Resumable:
    """A run that can be taken up where its journal ends."""

    folder: Path
    conf: RunConf
    standing: Standing
    reading: Reading
    session: RunStarted | RunResumed
    """The event that the last driver began with."""


def resumable(conf: RunConf) -> Resumable:
    """Reads the journal of the run that `conf.resume` names; nothing is started or written.

    Raises:
        CannotResume: its declared time is over, or it is simulated.
        OtherRules: its proposals were made by other rules than this code's.
        CannotFollow: it follows a run that is not the one it was.
        JournalDamaged, NoSuchRun: see aiperf.journal.journal.
    """
    assert conf.resume is not None
    folder = run_folder(conf.resume, conf.runs)
    reader = read(to_be_read(folder, _own_disk(folder)), conf.resume_until)
    lines = iter(reader)
    first = next(lines, None)
    if not isinstance(first, RunStarted):
        raise CannotResume(f"the journal in '{folder}' holds not one whole line; begin another run: python -m aiperf")
    if first.simulated:
        raise CannotResume(
            f"a simulated run is begun anew, not resumed: equal seed, equal journal; '{folder}' is simulated"
        )
    check_rules(first)
    with folding(reader):
        follows = None if first.follows is None else _followed_again(first.follows, conf)
        conf, standing = from_plain(first.config), Standing.at(first, follows)
        session: RunStarted | RunResumed = first
        for event in lines:
            standing.take(event)
            if isinstance(event, RunResumed):
                session = event
    if standing.run.ended == "duration":
        raise CannotResume(
            f"a run is over when its declared time is; '{folder}' ended after its {first.duration_seconds:.0f} s. "
            "Begin another: python -m aiperf"
        )
    if reader.reading.torn:
        print(
            f"the last line of '{folder / NAME}' was torn (a driver killed while it wrote); it is dropped, and kept beside it"
        )
    return Resumable(folder, conf, standing, reader.reading, session)


def _followed_again(recorded: FollowedRun, conf: RunConf) -> Following:
    return followed_again(recorded, run_folder(conf.follow or recorded.path, conf.runs))


def _own_disk(folder: Path) -> Path | None:
    """Where the first line of a run's journal says that its driver wrote it, if not in the folder."""
    reader = read(folder)
    first = next(iter(reader), None)
    with folding(reader):
        return from_plain(first.config).storage.local_journal() if isinstance(first, RunStarted) else None


def resume(
    found: Resumable,
    executor_of: ExecutorOf,
    after_turn: Callable[[Driver], None],
    checks: Sequence[NodeChecked] = (),
) -> Path:
    """Goes on with a run that was killed or ended early; gives its folder.

    Raises:
        JournalInUse: another driver has it.
        JournalNotLocked: it can be kept by neither lock nor lease.
    """
    standing = found.standing
    with open_journal(found.folder, found.conf.storage.local_journal(), found.reading) as journal:
        resumed = resumption(standing.run, found.session, host_time(), journal.cut)
        if resumed.rolled_back_lines and journal.cut is not None:
            print(
                f"{resumed.rolled_back_lines} lines after line {journal.lines} are rolled back, and kept in "
                f"'{journal.cut.kept}'; a run that was rolled back is outside the ranking"
            )
        lines: list[AnyEvent] = [resumed, *(msgspec.structs.replace(event, at=resumed.at) for event in checks)]
        for event in lines:
            standing.take(event)
        journal.append(lines)
        for told in (forget(found.folder), sweep(standing.run, found.folder / CHECKPOINTS)):
            if told is not None:
                print(told)
        _drive(found.conf, found.folder, standing, journal, executor_of, resumed.at, after_turn)
    clear(standing.run, found.folder, found.conf.storage.checkpoints)
    return found.folder


def resumption(run: Run, session: RunStarted | RunResumed, now: HostTime, cut: Cut | None = None) -> RunResumed:
    """The event of taking a run up again; `session` is what its last driver began with.

    On the same boot the clock went on by the time since then, whatever happened to the wall clock; after another boot, or on
    another host, there is nothing but the wall clock. It never runs back.
    """
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
    standing: Standing,
    journal: Journal,
    executor_of: ExecutorOf,
    already: float,
    after_turn: Callable[[Driver], None],
) -> None:
    clock = WallClock(already)
    request = folder / END_REQUEST
    request.unlink(missing_ok=True)  # of a driver before this one

    def look(driver: Driver) -> None:
        driver.interrupted = driver.interrupted or request.exists()
        after_turn(driver)

    try:
        with ExitStack() as stack:
            executor = executor_of(conf, folder, standing)
            stack.callback(executor.close)
            executor.tell(standing.observed)
            executor.start()
            driver = Driver(
                standing.run,
                standing.work_log,
                standing.history,
                journal,
                executor,
                clock,
                look,
                agenda=standing.agenda,
            )
            with ending_on_interrupt(driver):
                driver.drive()
        if (told := sweep(standing.run, folder / CHECKPOINTS)) is not None:
            print(told)
    except RuntimeLost as lost:
        raise RunStopped(folder, str(lost)) from lost
    except NoWorkers as none:
        raise RunStopped(folder, str(none)) from none


@contextmanager
def ending_on_interrupt(driver: Driver) -> Iterator[None]:
    """Ctrl-C, SIGTERM or a closed terminal, once: the run ends cleanly at the driver's next turn. Twice: at once."""

    def end() -> None:
        driver.interrupted = True

    with interrupts.noted(end):
        yield
