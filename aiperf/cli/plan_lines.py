"""Text of a plan, for a run on existing nodes or on nodes that a scheduler will provide."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from aiperf.config import RunConf
from aiperf.data.description import DataSet
from aiperf.journal.events import FollowedRun
from aiperf.planning.declared_nodes import LEARNT, Preview
from aiperf.planning.disk import DiskNeeds, disk_needs
from aiperf.planning.disk import in_words as needs_text
from aiperf.planning.plan import Plan
from aiperf.rules.changes.checkpoints import RETAINED
from aiperf.rules.followed import FollowedHistory
from aiperf.rules.limits import NOT_PUBLISHED, HpcAi500Conf, is_published_workload
from aiperf.rules.procedure import epoch_limit
from aiperf.units import count, duration, noise, operations, share, size
from cluster.place import Simulated, place_of
from morphism import Architecture, Budget, cost_of

KEPT = RETAINED + 1
"""Stored checkpoints of finished trials: the best that can grow, and the best that cannot."""

INDENT = 13
"""Column of the values."""

Line = tuple[str, str]


def plan_text(plan: Plan, workers: str, number: int = 1) -> str:
    """Return the text of a plan. `workers`: their number as text. `number`: workers for the estimate of disk space."""
    conf, shape, space = plan.conf, plan.shape, plan.space
    return _joined(
        [
            *_data_set(plan.dataset),
            _time(conf),
            ("workers", workers),
            (
                "a worker",
                f"{_accelerators(shape.accelerators)}, {shape.ranks} ranks ({conf.trainer.collective}), "
                f"batch {space.default_batch_size} each",
            ),
            ("planned for", f"{shape.device}, {size(shape.memory_bytes)} a rank ({shape.source})"),
            *_network(conf, plan.network, plan.dataset),
            _budget(space.budget),
            *(_search(conf) if plan.follows is None else _followed(plan.follows.work, plan.follows.recorded)),
            _disk(conf, disk_of(conf, plan.network, plan.dataset, shape.accelerators, number)),
        ]
    )


def preview_text(preview: Preview, requested: Sequence[Line], workers: str) -> str:
    """Return the text of a preview. `requested`: lines about the resources to request."""
    conf, worker, plan = preview.conf, preview.worker, preview.plan
    data, network = preview.dataset, preview.network
    lines: list[Line] = [*requested]
    if data is None:
        lines.append(("data set", f"{conf.dataset.name}: {preview.dataset_source}"))
    else:
        (name, about), *notes = _data_set(data)
        lines += [(name, f"{about} ({preview.dataset_source})"), *notes]
    lines += [_time(conf), ("workers", workers)]
    each = f", batch {plan.space.default_batch_size} each" if plan is not None else ""
    if worker.accelerators is None:
        lines.append(("a worker", f"accelerators: {LEARNT}"))
    elif worker.ranks is None:
        lines.append(("a worker", f"{_accelerators(worker.accelerators)}; ranks: {LEARNT}"))
    else:
        lines.append(
            (
                "a worker",
                f"{_accelerators(worker.accelerators)}, {worker.ranks} ranks ({conf.trainer.collective}){each}",
            )
        )
    of = "the accelerators" if worker.accelerators != 0 else "a rank"
    memory = f"memory of {of}: {LEARNT}" if worker.memory_bytes is None else f"{size(worker.memory_bytes)} a rank"
    lines.append(("declared", f"{worker.device or f'kind of device: {LEARNT}'}; {memory}"))
    if data is not None and network is not None:
        lines += _network(conf, network, data)
        lines.append(_budget(plan.space.budget if plan is not None else Budget.of(network, factor=conf.budget.factor)))
    lines += (
        _search(conf) if plan is None or plan.follows is None else _followed(plan.follows.work, plan.follows.recorded)
    )
    if data is not None and network is not None:
        lines.append(_disk(conf, disk_of(conf, network, data, worker.accelerators or 0, 1)))
    return _joined(lines)


def _joined(lines: Sequence[Line]) -> str:
    return "\n".join(f"{name:<{INDENT - 1}} {value}" for name, value in lines)


def _data_set(data: DataSet) -> Iterator[Line]:
    yield (
        "data set",
        f"{data.name}: {count(data.training_images)} training and {count(data.validation_images)} validation images, "
        f"{data.size_in_words}, {data.classes} classes" + (f", {noise(data.noise)}" if data.noise else ""),
    )
    if data.note is not None:
        yield "", data.note


def _time(conf: RunConf) -> Line:
    schedule = conf.schedule
    stop = (
        ""
        if schedule.stop == "duration"
        else f". It ends once the score has converged within {share(schedule.stop_precision, 2)}, after a window of "
        f"{duration(schedule.stop_after_seconds)} or more, and is then outside the ranking"
    )
    return "time", f"{duration(schedule.duration_seconds)}, the first {duration(schedule.warmup_seconds)} warm-up{stop}"


def _accelerators(number: int) -> str:
    return f"{number} accelerators" if number else "no accelerators"


def _network(conf: RunConf, network: Architecture, data: DataSet) -> Iterator[Line]:
    counted = cost_of(network)
    start_network = conf.start or conf.dataset.usual_start
    if isinstance(conf.benchmark, HpcAi500Conf):
        is_published = is_published_workload(conf.benchmark.name, data.recorded, start_network)
        workload = "" if is_published else f"; {NOT_PUBLISHED}"
        yield "benchmark", f"{conf.benchmark.name}, target quality {conf.benchmark.target_quality:g}{workload}"
    yield (
        "first graph",
        f"{start_network}: {count(counted.parameters)} parameters, "
        f"{operations(counted.forward_flops)} forward, {operations(counted.backward_flops)} backward per image",
    )
    epoch = counted.epoch_flops(data.training_images, data.validation_images)
    limits = [epoch_limit(conf.schedule, round_) for round_ in range(1, len(conf.schedule.epochs) + 1)]
    yield "an epoch", f"{operations(epoch)}; rounds of {', '.join(map(str, limits))} epochs at most"


def _budget(budget: Budget) -> Line:
    assert budget.forward_flops is not None and budget.parameters is not None
    memory = "training memory: " + LEARNT
    if budget.memory_bytes is not None:
        memory = f"{size(budget.memory_bytes)} of training memory at batch {budget.batch}"
    return (
        "budget",
        f"{operations(budget.forward_flops)} forward per image, {count(budget.parameters)} parameters, {memory}",
    )


def _search(conf: RunConf) -> Iterator[Line]:
    if conf.follow is not None:
        yield "search", f"none: the run follows {conf.follow}, which is read when the workers have started"
    else:
        yield "search", f"{conf.searcher.name}; {conf.hpo.name} from round {conf.schedule.warmup_rounds + 1}"


def _followed(work: FollowedHistory, recorded: FollowedRun) -> Iterator[Line]:
    cut_off = sum(trial.follows.was_cut_off for trial in work.trials)
    epochs = sum(trial.follows.epochs for trial in work.trials)
    yield (
        "search",
        f"none: it follows '{recorded.run}', {count(recorded.trials)} trials in their order, {count(epochs)} epochs, "
        "outside the ranking",
    )
    yield "followed", f"{recorded.path}: {count(recorded.lines)} lines, hash {recorded.last_hash[:12]}…"
    yield "", f"{count(work.workers)} workers of {recorded.ranks} ranks on {', '.join(work.devices) or 'no device'}"
    if cut_off:
        yield "", f"{count(cut_off)} trials were cut off by its end: they are trained as long as their rounds allowed"
    for reason, number in work.left_out.items():
        yield "", f"{count(number)} proposals are left out: {reason}"


FLOPS_PER_ACCELERATOR = 50e12
FLOPS_WITHOUT = 100e9
"""Speeds of a worker from which the length of an epoch is estimated before a run."""


def disk_of(conf: RunConf, network: Architecture, data: DataSet, accelerators: int, workers: int) -> DiskNeeds:
    """Estimate the disk space of a run. `accelerators`: of one worker."""
    counted = cost_of(network)
    epoch = counted.epoch_flops(data.training_images, data.validation_images)
    return disk_needs(
        parameters=counted.parameters,
        growth=conf.budget.factor,
        kept=KEPT,
        seconds=conf.schedule.duration_seconds,
        workers=workers,
        devices=1 + accelerators,
        epoch_seconds=epoch / (FLOPS_PER_ACCELERATOR * accelerators or FLOPS_WITHOUT),
    )


def _disk(conf: RunConf, needs: DiskNeeds) -> Line:
    if isinstance(place_of(conf.cluster, os.environ), Simulated):
        return "disk", "a journal and a report. Nothing is trained"
    return "disk", f"under {conf.runs}: {needs_text(needs)}"
