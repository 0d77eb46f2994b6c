"""Table of the plan of a run (data set, time, workers, first network, budget, disk), printed before the run starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from aiperf.config import RunConf, as_plain
from aiperf.data.description import DataSet
from aiperf.journal.events import WorkerShape
from aiperf.page.section import Table, rows
from aiperf.planning.declared_nodes import LEARNT, Preview
from aiperf.planning.disk import disk_needs
from aiperf.planning.disk import in_words as needs_text
from aiperf.planning.epoch_time import epoch_note
from aiperf.planning.plan import Plan
from aiperf.rules.followed import Following
from aiperf.rules.limits import NOT_PUBLISHED, HpcAi500Conf, is_published_workload
from aiperf.rules.procedure import epoch_limit
from aiperf.units import count, counted, duration, noise, operations, size
from cluster.place import Simulated, place_of
from morphism import Architecture, Budget, cost_of

Line = tuple[str, str]


def plan_table(plan: Plan, workers: str, number: int = 1, site: Sequence[Line] = ()) -> Table:
    return _table([*site, *_data_set(plan.dataset), _time(plan.conf), ("workers", workers), *_planned(plan, number)])


def preview_table(preview: Preview, conf: RunConf, requested: Sequence[Line], workers: str) -> Table:
    """Return the plan of a run before its nodes exist. `requested`: its first lines."""
    data, network, plan = preview.dataset, preview.network, preview.plan
    described: list[Line] = [("data set", f"{conf.dataset.name}: {preview.dataset_source}")]
    if data is not None:
        (name, about), *notes = _data_set(data)
        described = [(name, f"{about} ({preview.dataset_source})"), *notes]
    lines = [*requested, *described, _time(conf), ("workers", workers)]
    if plan is not None:
        return _table([*lines, *_planned(plan, 1)])
    lines += _set_up(conf)
    about_network = [] if data is None or network is None else _network(conf, network, data)
    return _table([*lines, ("a worker", f"ranks, batch, memory and budget: {LEARNT}"), *about_network, *_search(conf)])


def _planned(plan: Plan, number: int) -> Iterator[Line]:
    conf, shape, space = plan.conf, plan.shape, plan.space
    accelerators = f"{shape.accelerators} accelerators" if shape.accelerators else "no accelerators"
    ranks = f"{counted(shape.ranks, 'rank')} ({conf.trainer.collective})"
    yield "a worker", f"{accelerators}, {ranks}, batch {space.default_batch_size} each"
    graphs, compiling = conf.trainer.cuda_graphs, conf.trainer.compile
    if shape.accelerators and shape.ranks > 1 and graphs != "off" and compiling in ("off", "auto"):
        is_sure = (graphs, compiling) == ("on", "off")
        condition = "" if is_sure else "if CUDA graphs are chosen without compiling, "
        yield (
            "",
            f"{condition}no gradient exchange overlaps with the backward pass: graphs are captured before the exchange",
        )
    yield "planned for", f"{shape.device}, {size(shape.memory_bytes)} a rank ({shape.source})"
    yield from _set_up(conf)
    yield from _network(conf, plan.network, plan.dataset, shape)
    yield _budget(space.budget, plan.dataset)
    yield from _search(conf) if plan.follows is None else _followed(plan.follows)
    yield _disk(plan, number)


def _is_simulated(conf: RunConf) -> bool:
    return isinstance(place_of(conf.cluster, os.environ), Simulated)


def _set_up(conf: RunConf) -> Iterator[Line]:
    """Yield the line on the device for which `make setup` chose torch. An installation without it has none."""
    kept = Path(sys.prefix) / ".device"
    if kept.is_file() and not _is_simulated(conf):
        yield "set up for", f"DEVICE={kept.read_text().strip()}, torch {metadata.version('torch')}"


def _table(lines: Sequence[Line]) -> Table:
    return rows("plan", "", ("", ""), lines)


def _data_set(data: DataSet) -> Iterator[Line]:
    yield (
        "data set",
        f"{data.samples}, {data.size_in_words}, {data.classes_in_words}"
        + (f", {noise(data.noise)}" if data.noise else ""),
    )
    if data.note is not None:
        yield "", data.note


def _time(conf: RunConf) -> Line:
    schedule = conf.schedule
    return "time", f"{duration(schedule.duration_seconds)}, the first {duration(schedule.warmup_seconds)} warm-up"


def _network(conf: RunConf, network: Architecture, data: DataSet, shape: WorkerShape | None = None) -> Iterator[Line]:
    counted = cost_of(network)
    start_network = conf.start or conf.dataset.usual_start
    if isinstance(conf.benchmark, HpcAi500Conf):
        is_published = is_published_workload(as_plain(conf), data.recorded, start_network)
        workload = "" if is_published else f"; {NOT_PUBLISHED}"
        yield "benchmark", f"{conf.benchmark.name}, target quality {conf.benchmark.target_quality:g}{workload}"
    yield (
        "first graph",
        f"{start_network}: {count(counted.parameters)} parameters, "
        f"{operations(counted.forward_flops)} forward, {operations(counted.backward_flops)} backward per {data.noun.one}",
    )
    epoch = counted.epoch_flops(data.training_images, data.validation_images)
    limits = [epoch_limit(conf.schedule, round_) for round_ in range(1, len(conf.schedule.epochs) + 1)]
    yield "an epoch", f"{operations(epoch)}; rounds of {', '.join(map(str, limits))} epochs at most"
    if not _is_simulated(conf) and (note := epoch_note(conf, shape, epoch)) is not None:
        yield "", note


def _budget(budget: Budget, data: DataSet) -> Line:
    assert budget.forward_flops is not None and budget.parameters is not None and budget.memory_bytes is not None
    return (
        "budget",
        f"{operations(budget.forward_flops)} forward per {data.noun.one}, {count(budget.parameters)} parameters, "
        f"{size(budget.memory_bytes)} of training memory at batch {budget.batch}",
    )


def _search(conf: RunConf) -> Iterator[Line]:
    if conf.follow is not None:
        yield "search", f"none: the run trains the list of {conf.follow}, which is read when the workers have started"
    else:
        fresh = "" if conf.trainer.inherit else "; children begin with fresh weights"
        yield "search", f"{conf.searcher.name}; {conf.hpo.name} from round {conf.schedule.warmup_rounds + 1}{fresh}"


def _followed(follows: Following) -> Iterator[Line]:
    recorded, samples = follows.recorded, sum(trial.samples for trial in follows.work.trials)
    yield (
        "search",
        f"none: it trains the list of '{recorded.run}' from fresh weights, {count(recorded.trials)} trials, {count(samples)} "
        "samples",
    )
    yield (
        "list",
        f"hash {recorded.identity}…" + (f", {recorded.lines} lines of {recorded.path}" if recorded.lines else ""),
    )
    for reason, number in recorded.left_out.items():
        yield "", f"{count(number)} proposals are left out: {reason}"


def _disk(plan: Plan, workers: int) -> Line:
    if _is_simulated(plan.conf):
        return "disk", "a journal and a report. Nothing is trained"
    needs = disk_needs(plan.conf, plan.network, plan.dataset, plan.shape.accelerators, workers)
    return "disk", f"under {plan.conf.runs}: {needs_text(needs)}"
