"""Simulated clusters of 1 to 4096 workers, compared in a table and a plot: `python -m aiperf rehearse key=value …`."""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aiperf.accounting.accelerator_time import accelerator_time, time_breakdown
from aiperf.accounting.intervals import Window
from aiperf.accounting.score import score
from aiperf.accounting.work_log import WorkLog, window, work_log
from aiperf.atomic_files import replace_file
from aiperf.config import RunConf, configure
from aiperf.errors import BadConfiguration
from aiperf.journal.journal import NAME, read
from aiperf.page import palette
from aiperf.page.figure import drawn
from aiperf.page.section import Table, numbers, table
from aiperf.page.terminal import table_lines
from aiperf.planning.plan import make_folder
from aiperf.simulate.session import SimulationCost, drive, open_run, world_of
from aiperf.units import count, counted, duration, flops_per_second, share, size
from cluster.simulated import SimulatedConf

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEEDS_ALONE = 16
"""Number of runs of one worker. Their mean score defines perfect scaling."""
BUSY = ("training", "communication", "validation")
"""Lines of the time breakdown with busy accelerators."""


@dataclass(frozen=True, slots=True)
class SingleWorkerMean:
    """Mean score of simulations of one worker with the configured speed, without faults, over several seeds."""

    score_flops_per_second: float
    standard_error: float
    busy_share: float


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """Result of the simulation of one cluster size: score, efficiency, and cost of the simulation."""

    workers: int
    accelerators: int
    score_flops_per_second: float
    perfect_flops_per_second: float
    """workers × the hosts' mean speed × score of one worker of the configured speed."""
    standard_error: float
    """Standard error of the perfect score, as a share of it."""
    efficiency: float
    """Score ÷ perfect score: usual weak scaling. Above 1 if the networks found suit accelerators better."""
    busy_efficiency: float
    """Accelerators' busy time ÷ that of one worker alone: it shows the cost of waiting for other workers and for the driver.
    """
    busy_share: float
    shares: dict[str, float]
    """Accelerator time by cause, as shares of the whole."""
    trials: int
    cost: SimulationCost
    journal_bytes: int
    memory_bytes: int
    """Maximum memory of the process so far, in bytes."""


def sizes(largest: int) -> list[int]:
    """Return the numbers of workers to simulate: 1, 4, 16, … below `largest`, and `largest`.

    >>> sizes(4096), sizes(100)
    ([1, 4, 16, 64, 256, 1024, 4096], [1, 4, 16, 64, 100])
    """
    result = [1]
    while result[-1] * 4 < largest:
        result.append(result[-1] * 4)
    return result if largest <= 1 else [*result, largest]


def alone(conf: RunConf, seeds: int = SEEDS_ALONE) -> SingleWorkerMean:
    """Return the mean score (FLOPS) of one simulated worker without faults over `seeds` seeds."""
    assert isinstance(conf.cluster, SimulatedConf)
    calm = replace(conf, cluster=replace(conf.cluster, workers=1, speed_spread=0.0, faults=[]))
    nothing = SingleWorkerMean(1.0, 0.0, 1.0)
    runs = [rehearse(replace(calm, seed=conf.seed + number), 1, nothing) for number in range(seeds)]
    scores = [each.score_flops_per_second for each in runs]
    mean = statistics.fmean(scores)
    if not mean > 0:
        raise BadConfiguration(
            f"one worker has no score after {conf.schedule.duration_seconds:g} s, which is the reference. Lengthen "
            "schedule.duration_seconds"
        )
    spread = statistics.stdev(scores) / len(scores) ** 0.5 if len(scores) > 1 else 0.0
    return SingleWorkerMean(mean, spread / mean, statistics.fmean(each.busy_share for each in runs))


def rehearse(conf: RunConf, workers: int, reference: SingleWorkerMean) -> Rehearsed:
    """Simulate a cluster of `workers` workers."""
    assert isinstance(conf.cluster, SimulatedConf)
    opening = open_run(replace(conf, cluster=replace(conf.cluster, workers=workers)))
    world = world_of(opening)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        path = Path(folder) / NAME
        spent = drive(world, opening.first, path)
        kept = work_log(read(path))
        journal_bytes = path.stat().st_size
    scored = score(kept)
    flops, busy = scored.flops_per_second or 0.0, scored.busy_share or 0.0
    # Hosts differ by their seeds. With few workers all may be fast.
    mean_speed = fsum(world.speed_of(slot // opening.conf.workers_per_host) for slot in range(workers)) / workers
    perfect = workers * mean_speed * reference.score_flops_per_second
    return Rehearsed(
        workers=workers,
        accelerators=workers * opening.conf.accelerators,
        score_flops_per_second=flops,
        perfect_flops_per_second=perfect,
        standard_error=reference.standard_error,
        efficiency=flops / perfect,
        busy_efficiency=busy / reference.busy_share,
        busy_share=busy,
        shares=_shares(kept, window(kept)),
        trials=scored.trials_finished,
        cost=spent,
        journal_bytes=journal_bytes,
        memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _shares(kept: WorkLog, inside: Window) -> dict[str, float]:
    spent = accelerator_time(kept, inside)
    breakdown = time_breakdown(spent)
    shares = {line.name: line.share for line in breakdown.lines}
    if breakdown.whole_seconds > 0:
        repeated = {name: spent.repeated.activities[name] / breakdown.whole_seconds for name in BUSY}
        for name, share in repeated.items():
            shares[name] -= share
        shares["done again"] = sum(repeated.values())
    return shares


LARGEST = 4096
HOURS = 3
"""Virtual length of each size in hours: one of warm-up and two that count."""
DEFAULTS = (
    "+cluster=simulated",
    "schedule=ranking",
    f"schedule.duration_seconds={HOURS * 3600}",
    "searcher=random",
    "hpo=off",
    f"cluster.workers={LARGEST}",
)


def main(options: list[str]) -> int:
    """Execute the verb rehearse: simulate all sizes, print the table, write rehearsal.json, .png and .svg to a new folder."""
    conf = configured(options)
    assert isinstance(conf.cluster, SimulatedConf)
    folder = make_folder(Path(conf.runs) / (conf.name or "rehearsal"))
    print(introduction(conf), flush=True)
    reference = alone(conf)
    print(reference_text(reference), flush=True)
    clusters: list[Rehearsed] = []
    for workers in sizes(conf.cluster.workers):
        clusters.append(rehearse(conf, workers, reference))
        print(f"simulated {counted(workers, 'worker')}", file=sys.stderr, flush=True)
    print("\n".join([*table_lines(size_table(clusters)), lost(clusters[-1])]))
    results = {"alone": asdict(reference), "sweep": [asdict(each) for each in clusters]}
    replace_file(folder / "rehearsal.json", msgspec.json.format(msgspec.json.encode(results)))
    for path in draw(clusters, folder):
        print(path)
    return 0


def configured(options: Sequence[str]) -> RunConf:
    """Return the configuration from options KEY=VALUE, with defaults of `rehearse` for options that are not given."""
    named = {option.lstrip("+").partition("=")[0] for option in options}
    if "schedule" in named:
        named.add("schedule.duration_seconds")
    defaults = [option for option in DEFAULTS if option.lstrip("+").partition("=")[0] not in named]
    return configure([*defaults, *options])


def introduction(conf: RunConf) -> str:
    """Return the text that is printed before the simulations: virtual duration, searcher, tuning and faults."""
    assert isinstance(conf.cluster, SimulatedConf)
    schedule, faults = conf.schedule, ", ".join(fault.kind for fault in conf.cluster.faults) or "none"
    return (
        f"simulated clusters: {duration(schedule.duration_seconds)} of a virtual clock each, "
        f"{duration(schedule.warmup_seconds)} of them warm-up; searcher {conf.searcher.name}, tuning {conf.hpo.name}, "
        f"faults: {faults}. No work is done, and no such score is ever ranked."
    )


def reference_text(reference: SingleWorkerMean) -> str:
    """Return the text that is printed about the score of one worker alone, the reference of perfect scaling."""
    return (
        f"one worker alone: {flops_per_second(reference.score_flops_per_second)} "
        f"± {share(reference.standard_error, 2)} (mean of several seeds, and its standard error), "
        f"busy {share(reference.busy_share, 2)}. Perfect is that, for every worker of the cluster at its own speed."
    )


def size_table(clusters: Sequence[Rehearsed]) -> Table:
    columns = (
        numbers("workers", [each.workers for each in clusters], count),
        numbers("score", [each.score_flops_per_second for each in clusters], flops_per_second),
        numbers("efficiency", [each.efficiency for each in clusters], lambda value: share(value, 2)),
        numbers("of busy time", [each.busy_efficiency for each in clusters], lambda value: share(value, 2)),
        numbers("trials", [each.trials for each in clusters], count),
        numbers("events", [each.cost.events for each in clusters], count),
        numbers("driver", [each.cost.driver_seconds for each in clusters], duration),
        numbers("per event", [1e6 * each.cost.driver_seconds / each.cost.events for each in clusters], "{:.0f} µs".format),
        numbers("proposals/s", [each.cost.proposals_per_second for each in clusters], "{:.0f}".format),
        numbers("journal", [each.journal_bytes for each in clusters], size),
        numbers("memory", [each.memory_bytes for each in clusters], size),
    )  # fmt: skip
    return table("sizes", "", columns)


def lost(each: Rehearsed) -> str:
    """Return the printed text on the lost accelerator time: causes with their shares in percent, largest first."""
    parts = sorted(((name, part) for name, part in each.shares.items() if name not in BUSY), key=lambda item: -item[1])
    spent = ", ".join(f"{name} {share(part, 2)}" for name, part in parts if part)
    return f"lost with {counted(each.workers, 'worker')}: {spent or 'nothing'}"


_GOAL = 0.99
"""Required efficiency of a run without faults."""
_PALE = palette.AXIS.light


def draw(clusters: Sequence[Rehearsed], folder: Path) -> tuple[Path, Path]:
    """Draw score and efficiency over the number of workers. Return the paths of PNG and SVG."""

    def both(figure: Figure) -> None:
        from matplotlib.ticker import NullLocator

        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        _scores(upper, clusters)
        _efficiencies(lower, clusters)
        lower.set_xlabel("workers")
        lower.set_xticks([each.workers for each in clusters], [count(each.workers) for each in clusters])
        lower.xaxis.set_minor_locator(NullLocator())

    svg, png, _ = drawn(both, "rehearsal", 6.4, "simulated clusters: no work was done")
    paths = (folder / "rehearsal.png", folder / "rehearsal.svg")
    for path, content in zip(paths, (png, svg.encode()), strict=True):
        replace_file(path, content)
    return paths


def _scores(axes: Axes, clusters: Sequence[Rehearsed]) -> None:
    from matplotlib.ticker import FuncFormatter, NullLocator

    workers = [each.workers for each in clusters]
    scores = [each.score_flops_per_second for each in clusters]
    perfect = [each.perfect_flops_per_second for each in clusters]
    axes.loglog(workers, perfect, color=_PALE, linestyle="--", label="perfect: workers × one worker alone")
    axes.loglog(workers, scores, color=palette.BLUE.light, marker="o", linewidth=0, label="simulated")
    for at, value in zip(workers, scores, strict=True):
        axes.annotate(flops_per_second(value), (at, value), xytext=(7, -11), textcoords="offset points", fontsize=8)
    axes.set_ylabel("score")
    axes.set_ylim(min(scores) / 4, max(scores) * 3)
    axes.set_xlim(workers[0] / 1.5, workers[-1] * 4)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: flops_per_second(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_title(f"Simulated clusters, {clusters[-1].accelerators // clusters[-1].workers} accelerators per worker")
    axes.legend(loc="upper left")


def _efficiencies(axes: Axes, clusters: Sequence[Rehearsed]) -> None:
    workers = [each.workers for each in clusters]
    by_score = [100 * each.efficiency for each in clusters]
    by_time = [100 * each.busy_efficiency for each in clusters]
    spread = 200 * clusters[-1].standard_error
    axes.axhline(100, color=_PALE, linestyle="--", linewidth=1)
    axes.axhline(100 * _GOAL, color=_PALE, linestyle=":", linewidth=1, label=f"goal: {share(_GOAL, 0)}")
    blue, other = palette.BLUE.light, palette.VERMILION.light
    axes.errorbar(
        workers, by_score, spread, color=blue, marker="o", capsize=3, label="score ÷ perfect, ± 2 standard errors"
    )
    axes.semilogx(workers, by_time, color=other, marker="s", markersize=5, label="busy time ÷ one worker's")
    values = [*by_score, *by_time]
    axes.set_ylim(min(98.0, min(values) - 1.0), max(101.5, max(values) + spread + 0.5))
    axes.set_ylabel("efficiency in %")
    axes.legend(loc="lower left", ncols=3)
