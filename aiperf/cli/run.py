"""`python -m aiperf key=value …`: run the benchmark, print the score and write the report."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf import interrupts
from aiperf.cli import batch
from aiperf.cli.output import say, tell
from aiperf.cli.phases import Phases
from aiperf.cli.plan_lines import INDENT as PLAN_INDENT
from aiperf.cli.plan_lines import disk_of, plan_in_words, preview_in_words
from aiperf.config import RunConf, configure
from aiperf.data.description import DataSet
from aiperf.data.survey import describe as describe_data
from aiperf.errors import BadConfiguration, HostNotReached, ReportNotWritten, RunStopped
from aiperf.journal.journal import NAME
from aiperf.planning.declared_nodes import preview, require_declared, require_index, workers_expected
from aiperf.planning.disk import require_place, require_room
from aiperf.planning.plan import Plan, check_cluster, check_options, folder_of, make_folder, make_plan, require_batches
from aiperf.planning.resume_options import require_same
from aiperf.planning.worker_shape import this_machine
from aiperf.submission.announced_run import require_announced
from aiperf.system.describe import describe_usable
from cluster.place import ClusterConf, HeadPlace, Simulated, place_of

if TYPE_CHECKING:
    from aiperf.drive.driver import Driver
    from aiperf.drive.machines import MachinesExecutor
    from aiperf.drive.preflight import PreflightResult

WITH_RESUME = ("resume", "resume_until", "runs", "follow")
"""Options that are valid together with resume. All others are read from the journal."""


def main(words: Sequence[str]) -> int:
    """Run the benchmark and return the exit status: 0 with a valid score, 1 without, 130 after Ctrl-C, 143 after SIGTERM."""
    return interrupts.status(_carried_out(words))


def _carried_out(words: Sequence[str]) -> int:
    conf = configure(words)
    if conf.resume is not None:
        others = [word for word in words if word.split("=")[0] not in WITH_RESUME]
        if others:
            raise BadConfiguration(f"a resumed run keeps its configuration; leave {', '.join(others)} out")
    elif conf.resume_until is not None:
        raise BadConfiguration("resume_until is the last line of a journal to keep; it needs resume=RUN")
    if conf.cluster is not None:
        check_cluster(conf.cluster)
    if conf.resume is None:
        require_announced(conf)
    has_jobs = conf.cluster is not None and conf.cluster.has_jobs
    if conf.resume is None and not has_jobs:  # the folder of a job may be on other hosts
        require_place(conf.runs)
    if isinstance(place_of(conf.cluster, os.environ), Simulated):
        return _simulated(conf, words)
    if conf.resume is None and not has_jobs:
        _require_local_journal(conf)
    if conf.resume is not None:
        return _resumed(conf)
    if conf.cluster is not None:
        if conf.dry_run:
            return _previewed(conf, conf.cluster, words)
        if conf.cluster.has_jobs:
            return batch.submit(conf, conf.cluster, words)
        check_options(conf)
        if conf.cluster.is_joined:
            return _joined(conf, conf.cluster, words)
        _say(conf.cluster.notes())
        return _begun(conf, _described(conf), words)
    if conf.dry_run:
        plan = _planned_here(conf, words)
        _require_room(plan, Path(conf.runs))
        say(describe_plan(plan).splitlines(), PLAN_INDENT)
        return 0
    with Phases().phase("looking at data set and machine"):
        plan = _planned_here(conf, words)
        _require_room(plan, Path(conf.runs))
    return _begun(conf, plan.dataset, words)


def _planned_here(conf: RunConf, words: Sequence[str]) -> Plan:
    plan = make_plan(conf, this_machine(conf))
    require_batches(plan, words)
    return plan


def _require_local_journal(conf: RunConf) -> None:
    """Check the folder of a local journal on the driver's host. Not for jobs: their driver runs on their first node."""
    if (local := conf.storage.local_journal()) is not None:
        require_place(str(local), "storage.journal", "storage.journal=local:FOLDER")


def _described(conf: RunConf) -> DataSet:
    with Phases().phase("looking at the data set"):
        return describe_data(conf.dataset)


def _previewed(conf: RunConf, cluster: ClusterConf, words: Sequence[str]) -> int:
    """Print the plan of a run before its nodes exist, from the declared properties of the nodes."""
    previewed = preview(conf, cluster.nodes_asked())
    if previewed.plan is not None:
        require_batches(previewed.plan, words)
    asked = cluster.asked_for(conf.schedule.duration_seconds)
    workers = workers_expected(conf, cluster.nodes_asked()) or cluster.workers_in_words()
    print(preview_in_words(previewed, asked, workers))
    return 0


def _joined(conf: RunConf, cluster: ClusterConf, words: Sequence[str]) -> int:
    """Start a run on hosts that join this machine. Its folder is created first, since they join through it."""
    folder = folder_of(conf, time.time()).absolute()
    if not cluster.wants_submission:
        print(cluster.shown(folder, sys.executable, Path.cwd()))
        return 0
    _say(cluster.notes())
    dataset = _described(conf)
    folder = make_folder(folder)
    try:
        return _begun(conf, dataset, words, folder)
    except (HostNotReached, KeyboardInterrupt):
        with suppress(OSError):
            folder.rmdir()  # the run has not started
        raise


def _say(notes: Sequence[str]) -> None:
    for note in notes:
        tell(note)


def drive(words: Sequence[str], folder: Path) -> int:
    """Start the run of an existing folder, or resume it if the folder has a journal.

    Raises:
        BadConfiguration: the options differ from those in the journal.
    """
    conf = configure(words)
    if (folder / NAME).is_file():
        return _resumed(replace(conf, resume=str(folder)), given=(words, conf))
    check_options(conf)
    if conf.dry_run or conf.resume is not None:
        raise BadConfiguration(
            f"drive begins the run of a folder; found {shlex.join(words)}: leave dry_run and resume out"
        )
    require_announced(conf)
    _require_local_journal(conf)
    return _begun(conf, _described(conf), words, folder)


def _simulated(conf: RunConf, words: Sequence[str]) -> int:
    from aiperf.simulate.session import open_run, simulate

    opening = open_run(conf)
    require_batches(opening.plan, words)
    say(describe_plan(opening.plan).splitlines(), PLAN_INDENT)
    if conf.dry_run:
        return 0
    phases = Phases()
    with _shown(phases) as show:
        interrupts.note()
        folder = simulate(opening, show)
    phases.end()
    return _ended(folder)


def _resumed(conf: RunConf, given: tuple[Sequence[str], RunConf] | None = None) -> int:
    """Resume a run.

    `given`: options of the driver of a job, as words and as a configuration, since a job repeats its command. None if this
    process is not the driver of a job.
    """
    from aiperf.drive.session import require_free, resumable, resume

    found = resumable(conf)
    cluster = found.conf.cluster
    if given is not None:
        require_same(*given, found.conf, str(found.folder))
    else:
        require_free(found.folder)
    if given is None and cluster is not None and cluster.has_jobs:
        return batch.resubmit(found.conf, cluster, found.folder)

    def go_on(executor_of: MachinesExecutor, show: Callable[[Driver], None], phases: Phases) -> Path:
        checked = _checked(found.conf, found.folder, phases)
        phases.begin("asking for workers")
        interrupts.note()
        now, place = found, place_of(cluster, os.environ)
        if given is not None and isinstance(place, HeadPlace):
            require_free(found.folder, place.patience_seconds)
            if (found.folder / NAME).stat().st_size != found.reading.end:  # the earlier driver has added lines
                now = resumable(conf)
        return resume(now, partial(executor_of, checked=checked), show, checked.events)

    return _driven(found.conf, go_on, found.folder)


def _begun(conf: RunConf, dataset: DataSet, words: Sequence[str], folder: Path | None = None) -> int:
    """Start a new run. Heavy libraries are loaded last, after all errors of the configuration are reported."""
    from aiperf.drive.machines import worker_shape
    from aiperf.drive.session import run_session

    if conf.cluster is not None:
        require_index(conf, conf.cluster.nodes_asked(), dataset)

    def begin(executor_of: MachinesExecutor, show: Callable[[Driver], None], phases: Phases) -> Path:
        checked = _checked(conf, folder, phases)
        with phases.phase("asking nodes what they have"):
            shape = worker_shape(conf, checked)
        if conf.cluster is not None:
            require_declared(conf.cluster.nodes_asked(), conf.accelerators_per_worker, shape)
        plan = make_plan(conf, shape, dataset)
        require_batches(plan, words)
        _require_room(plan, Path(conf.runs) if folder is None else folder)
        say(describe_plan(plan).splitlines(), PLAN_INDENT)
        phases.begin("asking for workers")
        interrupts.note()
        return run_session(plan, partial(executor_of, checked=checked), show, folder, checked.events)

    return _driven(conf, begin, folder)


def _checked(conf: RunConf, folder: Path | None, phases: Phases) -> PreflightResult:
    from aiperf.drive.machines import check
    from aiperf.drive.preflight import lines

    with phases.phase("checking nodes"):
        checked = check(conf, folder)
    say(lines(checked.events))
    return checked


Drive = Callable[["MachinesExecutor", Callable[["Driver"], None], Phases], Path]
"""Function that drives a run on existing machines and returns its folder."""


def _driven(conf: RunConf, drive: Drive, folder: Path | None = None) -> int:
    phases = Phases()
    with phases.phase("loading libraries"):
        from aiperf.drive.machines import machines, publisher

    try:
        with ExitStack() as stack:
            with phases.phase("starting Ray" if conf.executor == "ray" else "starting"):
                executor_of = stack.enter_context(machines(conf, folder))
            interrupts.set_again()
            show, publish = stack.enter_context(_shown(phases)), publisher(conf)

            def after_turn(driver: Driver) -> None:
                show(driver)
                publish(driver)

            folder = drive(executor_of, after_turn, phases)
    except RunStopped as stopped:
        phases.end(is_done=False)
        _ended(stopped.folder)
        raise
    except BaseException:
        phases.end(is_done=False)
        raise
    phases.end()
    return _ended(folder)


@contextmanager
def _shown(phases: Phases) -> Iterator[Callable[[Driver], None]]:
    """Yield the function that shows the run in progress. The driver calls it after each turn, including the last."""
    from aiperf.drive.live import Live, terminal
    from aiperf.drive.live_view import live_view

    with Live(terminal()) as live:

        def show(driver: Driver) -> None:
            phases.end()
            live.show(lambda: live_view(driver), is_last=driver.run.ended is not None)
            if driver.run.ended is not None:
                phases.begin("ending workers")

        yield show


def _ended(folder: Path) -> int:
    from aiperf.comparison.sections import following
    from aiperf.report.text import closing_lines
    from aiperf.report.write import report_of, write

    try:
        with Phases().phase("writing the report"):
            report = report_of(folder)
            beside = following(report, folder)
            page = write(report, folder, extra=() if beside is None else (beside,)).page
    except ReportNotWritten:
        say(closing_lines(report, run=folder))  # the run has ended and has a score
        raise
    say(closing_lines(report, page, folder))
    return 0 if report.score.valid else 1


def describe_plan(plan: Plan) -> str:
    """Return the text of a plan."""
    cluster = plan.conf.cluster
    if cluster is not None:
        return plan_in_words(plan, cluster.workers_in_words())
    workers = _workers_here(plan)
    return plan_in_words(plan, f"{workers} on this machine", workers)


def _require_room(plan: Plan, place: Path) -> None:
    workers = _workers_here(plan) if plan.conf.cluster is None else 1
    require_room(
        disk_of(plan.conf, plan.graph, plan.dataset, plan.shape.accelerators, workers), require_place(str(place))
    )


def _workers_here(plan: Plan) -> int:
    each = plan.shape.accelerators
    return len(describe_usable().accelerators) // each if each and plan.conf.executor == "ray" else 1
