"""`python -m aiperf rehearse key=value …`: simulated clusters of 1 to 4096 workers, with a table, losses and one plot.

Options are those of a simulated run. cluster.workers is the largest size. Each smaller size is a fourth of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import msgspec
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from aiperf.atomic_files import draft_of, replace_file
from aiperf.config import RunConf, configure
from aiperf.planning.plan import make_folder
from aiperf.simulate.study.rehearse import BUSY, Rehearsed, SingleWorkerMean, alone, differences, rehearse, sizes
from aiperf.units import count, duration, flops_per_second, share, size
from cluster.simulated import SimulatedConf

LARGEST = 4096
HOURS = 3
"""Virtual length of a sweep in hours: one of warm-up and two that count. They contain rounds 1 to 3, in which pauses between
trials are more frequent than later."""
DEFAULTS = (
    "+cluster=simulated",
    "schedule=ranking",
    f"schedule.duration_seconds={HOURS * 3600}",
    "searcher=random",
    "hpo=off",
    f"cluster.workers={LARGEST}",
)


def main(words: list[str]) -> int:
    """Execute the verb: print the table, draw the plot and print its path. Return the exit status."""
    conf = configured(words)
    assert isinstance(conf.cluster, SimulatedConf)
    folder = make_folder(Path(conf.runs) / (conf.name or "rehearsal"))
    print(introduction(conf), flush=True)
    reference = alone(conf)
    print(reference_text(reference))
    print(HEAD)
    sweep: list[Rehearsed] = []
    for workers in sizes(conf.cluster.workers):
        sweep.append(rehearse(conf, workers, reference))
        print(line(sweep[-1]), flush=True)
    print(lost(sweep[-1]))
    if conf.cluster.faults:
        print(cost_of_faults(conf, sweep[-1], reference))
    results = {"alone": asdict(reference), "sweep": [asdict(each) for each in sweep]}
    replace_file(folder / "rehearsal.json", msgspec.json.format(msgspec.json.encode(results)))
    for path in draw(sweep, folder):
        print(path)
    return 0


def configured(words: Sequence[str]) -> RunConf:
    """Return the configuration of command-line options over the defaults of a sweep. A named schedule keeps its length."""
    named = {word.lstrip("+").partition("=")[0] for word in words}
    if "schedule" in named:
        named.add("schedule.duration_seconds")
    defaults = [word for word in DEFAULTS if word.lstrip("+").partition("=")[0] not in named]
    return configure([*defaults, *words])


def introduction(conf: RunConf) -> str:
    """Return a text on the planned simulation. Only the driver's costs are measured on a machine."""
    assert isinstance(conf.cluster, SimulatedConf)
    schedule = conf.schedule
    return (
        f"simulated clusters: {duration(schedule.duration_seconds)} of a virtual clock each, "
        f"{duration(schedule.warmup_seconds)} of them warm-up; searcher {conf.searcher.name}, tuning {conf.hpo.name}, "
        f"faults: {', '.join(map(str, conf.cluster.faults)) or 'none'}. No work is done, and no such score is ever ranked."
    )


def reference_text(reference: SingleWorkerMean) -> str:
    """Return a text on the reference of perfect scaling."""
    return (
        f"one worker alone: {flops_per_second(reference.score_flops_per_second)} "
        f"± {share(reference.standard_error, 2)} (mean of several seeds, and its standard error), "
        f"busy {share(reference.busy_share, 2)}. Perfect is that, for every worker of the cluster at its own speed."
    )


COLUMNS = {
    "workers": 7,
    "score": 11,
    "efficiency": 10,
    "of busy time": 12,
    "trials": 7,
    "events": 10,
    "driver": 12,
    "per event": 9,
    "proposals/s": 11,
    "journal": 8,
    "memory": 8,
}
"""Columns and their widths."""
HEAD = "  ".join(f"{name:>{width}}" for name, width in COLUMNS.items())
"""Header of the table."""


def line(each: Rehearsed) -> str:
    """Return the table's line of one cluster size. The driver's costs are processor time."""
    cells = (
        count(each.workers),
        flops_per_second(each.score_flops_per_second),
        share(each.efficiency, 2),
        share(each.busy_efficiency, 2),
        count(each.trials),
        count(each.events),
        duration(each.driver_seconds),
        f"{each.driver_seconds_per_event * 1e6:.0f} µs",
        f"{each.proposals_per_second:.0f}",
        size(each.journal_bytes),
        size(each.memory_bytes),
    )
    return "  ".join(f"{cell:>{width}}" for width, cell in zip(COLUMNS.values(), cells, strict=True))


def lost(each: Rehearsed) -> str:
    """Return a text on the accelerator time without training. Causes without a cost are omitted."""
    parts = sorted(((name, part) for name, part in each.shares.items() if name not in BUSY), key=lambda item: -item[1])
    spent = ", ".join(f"{name} {share(part, 2)}" for name, part in parts if part)
    return f"lost with {workers_text(each.workers)}: {spent or 'nothing'}"


def workers_text(number: int) -> str:
    """`1 worker`, `4096 workers`."""
    return f"{count(number)} worker{'' if number == 1 else 's'}"


def cost_of_faults(conf: RunConf, faulty: Rehearsed, reference: SingleWorkerMean) -> str:
    """Return the cost of the configured faults at the largest size as Markdown, compared with the same cluster without them."""
    assert isinstance(conf.cluster, SimulatedConf)
    calm = rehearse(replace(conf, cluster=replace(conf.cluster, faults=[])), faulty.workers, reference)
    total = 1.0 - faulty.score_flops_per_second / calm.score_flops_per_second
    rows = [
        f"lost to faults with {workers_text(faulty.workers)}: {share(total, 2)} of "
        f"{flops_per_second(calm.score_flops_per_second)}",
        "",
        "| line | share of the score without faults |",
        "| --- | ---: |",
    ]
    rows += [f"| {name} | {share(part, 2)} |" for name, part in differences(calm, faulty)]
    return "\n".join([*rows, f"| all | {share(total, 2)} |"])


_INK, _SCORE, _BUSY, _PALE = "#222222", "#1f5fa8", "#c2571a", "#9a9a9a"
_LEAST = 0.99
"""Required efficiency of a run without faults."""


def draw(sweep: Sequence[Rehearsed], folder: Path) -> tuple[Path, Path]:
    """Write rehearsal.png and rehearsal.svg into a folder and return their paths."""
    figure = Figure(figsize=(7.6, 6.4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _scores(upper, sweep)
    _efficiencies(lower, sweep)
    workers = [each.workers for each in sweep]
    lower.set_xlabel("workers")
    lower.set_xticks(workers, [count(each) for each in workers])
    lower.xaxis.set_minor_locator(NullLocator())
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        axes.set_axisbelow(True)
    paths = (folder / "rehearsal.png", folder / "rehearsal.svg")
    for path in paths:
        with draft_of(path) as draft:
            figure.savefig(draft, format=path.suffix[1:], metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def _scores(axes: Axes, sweep: Sequence[Rehearsed]) -> None:
    workers = [each.workers for each in sweep]
    perfect = [each.perfect_flops_per_second for each in sweep]
    scores = [each.score_flops_per_second for each in sweep]
    axes.loglog(workers, perfect, color=_PALE, linestyle="--", label="perfect: workers × one worker alone")
    axes.loglog(workers, scores, color=_SCORE, marker="o", linewidth=0, label="simulated")
    for each, height in zip(sweep, scores, strict=True):
        axes.annotate(
            flops_per_second(each.score_flops_per_second),
            (each.workers, height),
            xytext=(7, -11),
            textcoords="offset points",
            fontsize=8,
            color=_INK,
        )
    axes.set_ylabel("score")
    axes.set_ylim(min(scores) / 4, max(scores) * 3)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: flops_per_second(value)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlim(workers[0] / 1.5, workers[-1] * 4)
    ranks = sweep[-1].accelerators // sweep[-1].workers
    axes.set_title(
        f"Rehearsal on simulated clusters, {ranks} accelerators a worker: no work was done", color=_INK, fontsize=11
    )
    axes.legend(frameon=False, loc="upper left")


def _efficiencies(axes: Axes, sweep: Sequence[Rehearsed]) -> None:
    workers = [each.workers for each in sweep]
    by_score = [100 * each.efficiency for each in sweep]
    by_time = [100 * each.busy_efficiency for each in sweep]
    spread = 200 * sweep[-1].standard_error
    axes.axhline(100, color=_PALE, linestyle="--", linewidth=1)
    axes.axhline(100 * _LEAST, color=_PALE, linestyle=":", linewidth=1)
    axes.annotate(
        f"goal {share(_LEAST, 0)}", (workers[-1] * 3.8, 100 * _LEAST), ha="right", va="bottom", fontsize=8, color=_INK
    )
    axes.errorbar(
        workers,
        by_score,
        yerr=spread,
        color=_SCORE,
        marker="o",
        capsize=3,
        label="score ÷ perfect, ± 2 standard errors",
    )
    axes.semilogx(workers, by_time, color=_BUSY, marker="s", markersize=5, label="busy time ÷ one worker's")
    values = [*by_score, *by_time]
    axes.set_ylim(min(98.0, min(values) - 1.0), max(101.5, max(values) + spread + 0.5))
    axes.set_ylabel("efficiency in %")
    axes.legend(frameon=False, loc="lower left", fontsize=8, ncols=2)
