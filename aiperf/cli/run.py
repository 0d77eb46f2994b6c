"""`python -m aiperf key=value …`: a run of the benchmark, from the first word to the score and the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from aiperf.cli import batch
from aiperf.config import RunConf, configure
from aiperf.data.description import DataSet
from aiperf.data.survey import describe as describe_data
from aiperf.errors import BadConfiguration, RunStopped
from aiperf.journal.journal import NAME
from aiperf.planning.plan import Plan, check_options, make_plan, this_machine
from aiperf.rules.changes.checkpoints import RETAINED
from aiperf.rules.procedure import epoch_limit
from aiperf.system.describe import describe
from aiperf.units import count, duration, noise, operations, size
from cluster.simulated import SimulatedConf
from morphism import cost
from searchers.history import Space

BYTES_PER_CHECKPOINTED_PARAMETER = 8
"""Weight and momentum, FP32 each."""
KEPT = RETAINED + 1
"""Checkpoints of finished trials: of the best that can grow, and of the best that cannot."""
if TYPE_CHECKING:
    from aiperf.drive.driver import Driver
    from aiperf.drive.session import ExecutorOf

WITH_RESUME = ("resume", "resume_until", "runs")
"""What can be said together with resume: all else stands in the journal already."""


def main(words: Sequence[str]) -> int:
    """Carries the run out; gives the exit status: 0 with a valid score, 1 without."""
    conf = configure(words)
    if conf.resume is not None:
        others = [word for word in words if word.split("=")[0] not in WITH_RESUME]
        if others:
            raise BadConfiguration(f"a resumed run keeps its configuration; leave {', '.join(others)} out")
    elif conf.resume_until is not None:
        raise BadConfiguration("resume_until says how much of a journal to keep; it needs resume=RUN")
    if isinstance(conf.cluster, SimulatedConf):
        return _simulated(conf)
    if conf.resume is not None:
        return _resumed(conf)
    if conf.cluster is not None:
        if conf.dry_run:
            raise BadConfiguration(_NO_DRY_RUN.format(conf.cluster.kind))
        if conf.cluster.has_jobs:
            return batch.submit(conf, conf.cluster, words)
        check_options(conf)
        return _begun(conf, describe_data(conf.dataset))
    if conf.dry_run:
        print(describe_plan(make_plan(conf, this_machine(conf))))
        return 0
    return _begun(conf, make_plan(conf, this_machine(conf)).dataset)


_NO_DRY_RUN = (
    "a plan is made of the workers, which are learnt from the nodes; +cluster={0} has none yet. See the plan on one of them: "
    "dry_run=true there, without +cluster={0}; cluster.submit=false shows what a scheduler is asked for"
)


def drive(conf: RunConf, folder: Path) -> int:
    """Drives the run of a folder that was made for it: begins it there, or goes on with it."""
    if (folder / NAME).is_file():
        return _resumed(replace(conf, resume=str(folder)), is_driver=True)
    check_options(conf)
    return _begun(conf, describe_data(conf.dataset), folder)


def _simulated(conf: RunConf) -> int:
    from aiperf.simulate.session import open_run, simulate

    opening = open_run(conf)
    print(describe_plan(opening.plan))
    if conf.dry_run:
        return 0
    with _shown() as show:
        folder = simulate(opening, show)
    return _ended(folder)


def _resumed(conf: RunConf, *, is_driver: bool = False) -> int:
    from aiperf.drive.session import resumable, resume

    found = resumable(conf)
    cluster = found.conf.cluster
    if cluster is not None and cluster.has_jobs and not is_driver:
        return batch.resubmit(found.conf, cluster, found.folder)
    return _driven(found.conf, lambda executor_of, show: resume(found, executor_of, show), found.folder)


def _begun(conf: RunConf, dataset: DataSet, folder: Path | None = None) -> int:
    """A new run. The machine's libraries are loaded last: whatever is wrong with a configuration has been told before."""
    from aiperf.drive.machines import worker_shape
    from aiperf.drive.session import run_session

    def begin(executor_of: ExecutorOf, show: Callable[[Driver], None]) -> Path:
        plan = make_plan(conf, worker_shape(conf), dataset)
        print(describe_plan(plan))
        return run_session(plan, executor_of, show, folder)

    return _driven(conf, begin, folder)


def _driven(
    conf: RunConf, drive: Callable[[ExecutorOf, Callable[[Driver], None]], Path], folder: Path | None = None
) -> int:
    from aiperf.drive.machines import machines

    try:
        with machines(conf, folder) as executor_of, _shown() as show:
            folder = drive(executor_of, show)
    except RunStopped as stopped:
        _ended(stopped.folder)
        raise
    return _ended(folder)


@contextmanager
def _shown() -> Iterator[Callable[[Driver], None]]:
    """What shows a run while it goes on: called after each of its driver's turns."""
    from aiperf.drive.live import Live
    from aiperf.drive.live_view import live_view

    with Live(Console()) as live:

        def show(driver: Driver) -> None:
            live.show(lambda: live_view(driver))

        yield show


def _ended(folder: Path) -> int:
    from aiperf.report.text import closing_lines
    from aiperf.report.write import report_of, write

    report = report_of(folder)
    for line in closing_lines(report, write(report, folder).page):
        print(line)
    return 0 if report.score.valid else 1


def describe_plan(plan: Plan) -> str:
    """What a run will be, for a person who may still change it."""
    conf, data, space, shape = plan.conf, plan.dataset, plan.space, plan.shape
    counted = cost(plan.graph)
    epoch = counted.epoch_flops(data.training_images, data.validation_images)
    limits = [epoch_limit(conf.schedule, round_) for round_ in range(1, len(conf.schedule.epochs) + 1)]
    accelerators = f"{shape.accelerators} accelerators" if shape.accelerators else "no accelerators"
    checkpoints = KEPT * BYTES_PER_CHECKPOINTED_PARAMETER * counted.parameters
    lines = [
        (
            "data set",
            f"{data.name}: {count(data.training_images)} training and {count(data.validation_images)} validation images, "
            f"{data.image}×{data.image}×{data.channels}, {data.classes} classes"
            + (f", {noise(data.noise)}" if data.noise else ""),
        ),
        (
            "time",
            f"{duration(conf.schedule.duration_seconds)}, the first {duration(conf.schedule.warmup_seconds)} warm-up",
        ),
        ("workers", _workers(plan)),
        (
            "a worker",
            f"{accelerators}, {shape.ranks} ranks ({conf.trainer.collective}), batch {space.default_batch_size} each",
        ),
        ("reckoned for", f"{shape.device}, {size(shape.memory_bytes)} a rank ({shape.source})"),
        (
            "first graph",
            f"{_name(plan)}: {count(counted.parameters)} parameters, {operations(counted.forward_flops)} forward, "
            f"{operations(counted.backward_flops)} backward per image",
        ),
        ("an epoch", f"{operations(epoch)}; rounds of {', '.join(map(str, limits))} epochs at most"),
        ("budget", _budget(space)),
        ("search", f"{conf.searcher.name}; {conf.hpo.name} from round {space.tuning_from_round}"),
        (
            "disk",
            f"{size(checkpoints)} of checkpoints under {conf.runs}/ ({KEPT} kept), "
            f"up to {size(conf.budget.factor * checkpoints)} as networks grow; besides, those of trials in training"
            if not isinstance(conf.cluster, SimulatedConf)
            else "a journal and a report; nothing is trained",
        ),
    ]
    return "\n".join(f"{name:<12} {value}" for name, value in lines)


def _workers(plan: Plan) -> str:
    match plan.conf.cluster:
        case None:
            each = plan.shape.accelerators
            there = len(describe().accelerators) // each if each and plan.conf.executor == "ray" else 1
            return f"{there} on this machine"
        case SimulatedConf(workers=workers):
            return f"{workers}, simulated"
        case cluster:
            return f"as many as the nodes of +cluster={cluster.kind} hold"


def _name(plan: Plan) -> str:
    return plan.conf.start or plan.conf.dataset.usual_start


def _budget(space: Space) -> str:
    budget = space.budget
    assert budget.forward_flops is not None and budget.parameters is not None and budget.memory_bytes is not None
    return (
        f"{operations(budget.forward_flops)} forward per image, {count(budget.parameters)} parameters, "
        f"{size(budget.memory_bytes)} of training memory at batch {budget.batch}"
    )
