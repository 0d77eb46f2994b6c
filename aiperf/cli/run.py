"""`python -m aiperf OPTION=VALUE …`: run the benchmark, print the score and write the report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiperf import interrupts
from aiperf.cli import batch
from aiperf.cli.output import print_folded, print_parts
from aiperf.cli.phases import Phases
from aiperf.cli.plan_lines import plan_table, preview_table
from aiperf.cli.site import Site, with_site
from aiperf.config import RunConf, as_plain, configure
from aiperf.data.description import DataSet
from aiperf.data.survey import describe as describe_data
from aiperf.errors import BadConfiguration, HostNotReached, ReportNotWritten, RunStopped, conflict
from aiperf.files import escaped, shown
from aiperf.journal.journal import NAME
from aiperf.journal.options import option_differences
from aiperf.page.section import Table
from aiperf.planning.declared_nodes import assumed, preview, require_declared, require_index, workers_expected
from aiperf.planning.disk import disk_needs, require_place, require_room
from aiperf.planning.plan import Plan, check_cluster, check_options, folder_of, make_folder, make_plan, require_batches
from aiperf.planning.worker_shape import require_owned, this_machine
from aiperf.ranking.law import written
from aiperf.submission.announced_run import as_announced
from aiperf.system.describe import describe_usable
from aiperf.units import flops_per_second
from cluster.place import HeadPlace, JoinedConf, SchedulerConf, Simulated, place_of

if TYPE_CHECKING:
    from aiperf.accounting.work_log import WorkLog
    from aiperf.drive.driver import Driver
    from aiperf.drive.machines import MachinesExecutor
    from aiperf.drive.preflight import PreflightResult


WITH_RESUME = ("resume", "resume_until", "runs", "follow")
"""Options that are valid together with resume. All others are read from the journal."""


def main(words: Sequence[str]) -> int:
    """Start or resume a run of the benchmark, wait for its end, write the report, and return the exit status."""
    site = with_site(words)
    try:
        return interrupts.status(_execute(site))
    except BadConfiguration:
        site.print()
        raise


def _execute(site: Site) -> int:
    words, conf = site.words, configure(site.words)
    if conf.resume is not None:
        others = [word for word in words if word.split("=")[0] not in WITH_RESUME]
        if others:
            raise BadConfiguration(f"a resumed run keeps its configuration: leave {', '.join(others)} out")
    elif conf.resume_until is not None:
        raise BadConfiguration("resume_until is the last line of a journal to keep. It needs resume=RUN")
    paths = [conf.runs, getattr(conf.dataset, "root", None)]
    if escaped(here := str(Path.cwd())) != here and not all(Path(path or "/").is_absolute() for path in paths):
        raise BadConfiguration(
            f"paths are recorded, and must therefore be UTF-8, but this folder is {shown(here)}: change to another folder"
        )
    if conf.cluster is not None:
        check_cluster(conf.cluster)
    if conf.resume is None:
        conf = as_announced(conf)
    has_jobs = isinstance(conf.cluster, SchedulerConf)
    if conf.resume is None and not has_jobs:  # the folder of a job may be on other hosts
        require_place(conf.runs)
    if conf.dry_run and conf.resume is None:
        print_parts((planned(conf, words, site.lines)[0],))
        return 0
    if isinstance(place_of(conf.cluster, os.environ), Simulated):
        return _run_simulated(conf, site)
    if conf.resume is not None:
        return _resume(conf)
    if conf.cluster is not None:
        if isinstance(conf.cluster, SchedulerConf):
            site.print()
            return batch.submit(conf, conf.cluster, words)
        check_options(conf)
        if isinstance(conf.cluster, JoinedConf):
            return _run_on_hosts(conf, conf.cluster, site)
        return _start(conf, _describe_data_set(conf), site)
    check_options(conf)
    with Phases().phase("reading data set and machine"):
        plan = plan_here(conf, words)
        _require_room(plan, Path(conf.runs))
    return _start(conf, plan.dataset, site)


def plan_here(conf: RunConf, words: Sequence[str]) -> Plan:
    """Return the plan of a run on this machine, after checking that it can begin."""
    plan = make_plan(conf, this_machine(conf))
    require_batches(plan, words)
    return plan


def _describe_data_set(conf: RunConf) -> DataSet:
    with Phases().phase("reading the data set"):
        return describe_data(conf.dataset)


def planned(conf: RunConf, words: Sequence[str], site: Sequence[tuple[str, str]] = ()) -> tuple[Table, Plan | None]:
    """Return the plan of a new run as text and as a value, after all checks that need no start. `site`: its first lines.

    The value is None if the data set is seen on other hosts only. If the nodes are not known, it has an assumed worker.
    """
    cluster = conf.cluster
    if isinstance(place_of(cluster, os.environ), Simulated):
        from aiperf.simulate.session import open_run

        plan = open_run(conf).plan
        require_batches(plan, words)
    elif cluster is None:
        plan = plan_here(conf, words)
        _require_room(plan, Path(conf.runs))
    else:
        previewed = preview(conf, cluster.requested_nodes())
        if previewed.plan is not None:
            require_batches(previewed.plan, words)
        requested = cluster.requested_resources(conf.schedule.duration_seconds)
        workers = workers_expected(conf, cluster.requested_nodes()) or cluster.workers_text()
        return preview_table(previewed, conf, [*site, *requested], workers), assumed(previewed, conf)
    return describe_plan(plan, site), plan


def _run_on_hosts(conf: RunConf, cluster: JoinedConf, site: Site) -> int:
    """Start a run on hosts that join this machine. Its folder is created first, since they join through it."""
    folder = folder_of(conf, time.time()).absolute()
    if not cluster.submit:
        site.print()
        print(cluster.shown(folder))
        return 0
    dataset = _describe_data_set(conf)
    folder = make_folder(folder)
    try:
        return _start(conf, dataset, site, folder)
    except (HostNotReached, KeyboardInterrupt):
        with suppress(OSError):
            folder.rmdir()  # the run has not started
        raise


def drive(words: Sequence[str], folder: Path) -> int:
    """Start a run in an existing folder, or resume the run if the folder has a journal."""
    conf = configure(words)
    if (folder / NAME).is_file():
        return _resume(replace(conf, resume=str(folder)), given=(words, conf))
    check_options(conf)
    if conf.dry_run or conf.resume is not None:
        raise conflict("drive", "dry_run or resume", "Leave them out")
    conf = as_announced(conf)
    return _start(conf, _describe_data_set(conf), Site([*words]), folder)


def _run_simulated(conf: RunConf, site: Site) -> int:
    from aiperf.simulate.session import open_run, simulate

    opening = open_run(conf)
    require_batches(opening.plan, site.words)
    print_parts((describe_plan(opening.plan, site.lines),))
    phases = Phases()
    with _live_display(phases) as show:
        interrupts.note()
        folder = simulate(opening, show)
    phases.end()
    return _finish(folder)


def _resume(conf: RunConf, given: tuple[Sequence[str], RunConf] | None = None) -> int:
    """Resume a run. None if this process is not the driver of a job."""
    from aiperf.drive.session import require_free, resumable, resume

    resumed = resumable(conf)
    cluster = resumed.conf.cluster
    if given is not None:
        require_same(*given, resumed.conf, str(resumed.folder))
    else:
        require_free(resumed.folder)
    if given is None and isinstance(cluster, SchedulerConf):
        return batch.resubmit(resumed.conf, cluster, resumed.folder)

    def continue_run(executor_of: MachinesExecutor, show: Callable[[Driver], None], phases: Phases) -> Path:
        checked = _check_nodes(resumed.conf, resumed.folder, phases)
        phases.begin("requesting workers")
        interrupts.note()
        current, place = resumed, place_of(cluster, os.environ)
        if given is not None and isinstance(place, HeadPlace):
            require_free(resumed.folder, place.patience_seconds)
            if (resumed.folder / NAME).stat().st_size != resumed.reading.end:  # the earlier driver has added lines
                current = resumable(conf)
        return resume(current, partial(executor_of, checked=checked), show, checked.events)

    return _drive(resumed.conf, continue_run, resumed.folder)


def _start(conf: RunConf, dataset: DataSet, site: Site, folder: Path | None = None) -> int:
    """Start a new run. Heavy libraries are loaded last, after all errors of the configuration are reported."""
    from aiperf.drive.machines import worker_shape
    from aiperf.drive.session import run_session

    if conf.cluster is not None:
        require_index(conf, conf.cluster.requested_nodes(), dataset)

    def start_run(executor_of: MachinesExecutor, show: Callable[[Driver], None], phases: Phases) -> Path:
        checked = _check_nodes(conf, folder, phases)
        with phases.phase("reading the nodes' properties"):
            shape = worker_shape(conf, checked)
        if conf.cluster is not None:
            require_declared(conf.cluster.requested_nodes(), conf.accelerators_per_worker, shape)
        plan = make_plan(conf, shape, dataset)
        require_batches(plan, site.words)
        _require_room(plan, Path(conf.runs) if folder is None else folder)
        print_parts((describe_plan(plan, site.lines),))
        phases.begin("requesting workers")
        interrupts.note()
        return run_session(plan, partial(executor_of, checked=checked), show, folder, checked.events)

    return _drive(conf, start_run, folder)


def _check_nodes(conf: RunConf, folder: Path | None, phases: Phases) -> PreflightResult:
    from aiperf.drive.machines import check
    from aiperf.drive.preflight import lines

    with phases.steps("checking nodes") as show:
        checked = check(conf, folder, show)
    print_folded(lines(checked.events))
    return checked


Drive = Callable[["MachinesExecutor", Callable[["Driver"], None], Phases], Path]
"""Function that drives a run on existing machines and returns its folder."""


def _drive(conf: RunConf, drive: Drive, folder: Path | None = None) -> int:
    phases = Phases()
    if conf.executor != "inline":
        require_owned(describe_usable())
    with phases.phase("loading libraries"):
        from aiperf.drive.machines import machines, publisher

    try:
        with ExitStack() as stack:
            with phases.phase("starting Ray" if conf.executor == "ray" else "starting"):
                executor_of = stack.enter_context(machines(conf, folder))
            interrupts.set_again()
            show, publish = stack.enter_context(_live_display(phases)), publisher(conf)
            logs: list[WorkLog] = []

            def after_turn(driver: Driver) -> None:
                logs[:] = [driver.work_log]
                show(driver)
                publish(driver)

            folder = drive(executor_of, after_turn, phases)
    except RunStopped as stopped:
        phases.end(is_done=False)
        _finish(stopped.folder)
        raise
    except BaseException:
        phases.end(is_done=False)
        raise
    phases.end()
    for work_log in logs:
        _print_score(work_log)
    return _finish(folder)


def _print_score(work_log: WorkLog) -> None:
    """Print the score of a large run before its report: a job's time may end before that is written."""
    from aiperf.accounting.score import capacity, score
    from aiperf.system.summary import LARGE_RUN

    found = score(work_log).flops_per_second
    if found is not None and capacity(work_log) > LARGE_RUN:
        print(f"score {flops_per_second(found)}. The report follows", flush=True)


@contextmanager
def _live_display(phases: Phases) -> Iterator[Callable[[Driver], None]]:
    """Yield the function that shows the run in progress. The driver calls it after each turn, including the last."""
    from aiperf.drive.live import Live, live_view, terminal

    with closing(Live(terminal())) as live:

        def show(driver: Driver) -> None:
            phases.end()
            live.show(
                lambda: live_view(driver.run, driver.work_log, driver.clock.now()), is_last=driver.run.ended is not None
            )
            if driver.run.ended is not None:
                phases.begin("ending workers")

        yield show


def _finish(folder: Path) -> int:
    from aiperf.report.write import closing_lines, report_of, write

    try:
        with Phases().phase("writing the report"):
            report = report_of(folder)
            page = write(report, folder)
    except ReportNotWritten:
        print_folded(closing_lines(report, run=folder))  # the run has ended and has a score
        raise
    print_folded(closing_lines(report, page, folder))
    return 0 if report.score.valid else 1


def describe_plan(plan: Plan, site: Sequence[tuple[str, str]] = ()) -> Table:
    cluster = plan.conf.cluster
    if cluster is not None:
        return plan_table(plan, cluster.workers_text(), site=site)
    workers = _workers_here(plan)
    return plan_table(plan, f"{workers} on this machine", workers, site)


def _require_room(plan: Plan, place: Path) -> None:
    workers = _workers_here(plan) if plan.conf.cluster is None else 1
    needs = disk_needs(plan.conf, plan.network, plan.dataset, plan.shape.accelerators, workers)
    require_room(needs, require_place(str(place)))


def _workers_here(plan: Plan) -> int:
    each = plan.shape.accelerators
    return len(describe_usable().accelerators) // each if each and plan.conf.executor == "ray" else 1


def require_same(words: Sequence[str], given: RunConf, held: RunConf, run: str) -> None:
    differing = differences(words, as_plain(given), as_plain(held))
    if differing:
        raise BadConfiguration(
            f"a run keeps the configuration it began with. '{run}' has {'; '.join(differing)}: leave these options out, or "
            "begin another run in a new folder"
        )


def differences(words: Sequence[str], given: dict[str, Any], held: dict[str, Any]) -> list[str]:
    """Return a text 'OPTION=JOURNAL, not TYPED' for each typed option with another value than in the journal."""
    typed = {word.lstrip("+").partition("=")[0] for word in words}
    return [
        f"{each.name}={written(each.second)}, not {written(each.first)}"
        for each in option_differences(given, held)
        if typed & {each.name, each.name.partition(".")[0]}
    ]
