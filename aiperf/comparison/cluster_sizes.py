"""Weak scaling of whole clusters: score per accelerator for each size, against the smallest size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

from aiperf.comparison.comparability import require_each_once, require_one_benchmark, side
from aiperf.comparison.compare import score_estimate
from aiperf.errors import CannotCompare
from aiperf.page.section import Column, Table, measured, numbers, table
from aiperf.report.facts import Report, RunFacts
from aiperf.statistics.difference import BetweenRuns, change, pooled
from aiperf.statistics.estimate import Basis, Estimate
from aiperf.submission.submitted_runs import run_folders
from aiperf.units import count, flops_per_second, share

Curve = tuple[tuple[float, float], ...]
"""Seconds since the start of the run, and the figure at this time."""


@dataclass(frozen=True, slots=True)
class RunCurves:
    """Figures of one run over time."""

    run: str
    score: Curve
    regulated: Curve
    error: Curve
    """Smallest error so far, at each evaluation."""


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """Mean score of the runs with one number of accelerators."""

    accelerators: int
    runs: tuple[str, ...]
    flops_per_second: float
    """Mean score in FLOPS."""
    regulated_flops_per_second: float
    efficiency: float
    """Score per accelerator ÷ score per accelerator of the smallest size. 1: ideal weak scaling."""
    efficiency_interval: tuple[float, float] | None
    """95 % interval. None for the smallest size, or if the spread between runs is unknown."""
    basis: Basis | None
    """Source of the score's uncertainty: 'pooled' over the repeats of all sizes, or 'prior'. None if unknown."""
    curves: tuple[RunCurves, ...]


@dataclass(frozen=True, slots=True)
class WeakScaling:
    sizes: tuple[ClusterSize, ...]
    """The smallest first."""
    spread: BetweenRuns | None
    """Pooled over the repeats of all sizes. None without repeats."""
    run: RunFacts
    """First of the runs, which have equal lengths and warm-ups."""


ENOUGH_FREEDOM = 2
"""Degrees of freedom from which the pooled spread of the sizes is used, as of three runs."""


def cluster_sizes(words: Sequence[str]) -> WeakScaling:
    """Read runs and return them grouped by number of accelerators, with mean score and efficiency."""
    sides = [side([str(folder)]) for word in words for folder in run_folders(word)]
    require_each_once([folder for each in sides for folder in each.folders])
    by_size: dict[int, list[Report]] = {}
    for each in sides:
        require_one_benchmark(sides[0], each)
        by_size.setdefault(each.runs[0].hardware.accelerators, []).append(each.runs[0])
    if len(by_size) < 2:
        raise CannotCompare(
            f"--scaling compares sizes, but found {len(sides)} runs with {min(by_size)} accelerators: add a run of another size"
        )
    groups = sorted(by_size.items())
    spread = pooled(map(_scores, by_size.values()))
    sizes = (_size(accelerators, reports, groups[0], spread) for accelerators, reports in groups)
    return WeakScaling(tuple(sizes), spread, sides[0].runs[0].run)


def _scores(reports: Sequence[Report]) -> list[float]:
    return [report.score.flops_per_second or 0.0 for report in reports]


def _estimate(reports: Sequence[Report], spread: BetweenRuns | None) -> Estimate | None:
    if spread is None or spread.freedom < ENOUGH_FREEDOM:
        return score_estimate(reports)
    mean = fmean(_scores(reports))
    return Estimate(mean, mean * spread.variation / sqrt(len(reports)), spread.freedom, "pooled")


def _size(
    accelerators: int, reports: Sequence[Report], smallest: tuple[int, Sequence[Report]], spread: BetweenRuns | None
) -> ClusterSize:
    least, first = smallest
    mean, alone = fmean(_scores(reports)), fmean(_scores(first))
    estimate = _estimate(reports, spread)
    relative = change(alone / least, mean / accelerators, _estimate(first, spread), estimate)
    interval = None if relative is None or accelerators == least else relative.interval
    return ClusterSize(
        accelerators=accelerators,
        runs=tuple(report.run.name for report in reports),
        flops_per_second=mean,
        regulated_flops_per_second=fmean([report.score.regulated_flops_per_second or 0.0 for report in reports]),
        efficiency=mean / accelerators / (alone / least),
        efficiency_interval=None if interval is None else (1 + interval[0], 1 + interval[1]),
        basis=None if estimate is None else estimate.basis,
        curves=tuple(map(_curves, reports)),
    )


def _curves(report: Report) -> RunCurves:
    scores = [(each.at, each.flops_per_second, each.regulated_flops_per_second) for each in report.curve]
    return RunCurves(
        run=report.run.name,
        score=tuple((at, score) for at, score, _ in scores if score is not None),
        regulated=tuple((at, regulated) for at, _, regulated in scores if regulated is not None),
        error=tuple((each.at, each.best) for each in report.errors),
    )


def size_table(weak: WeakScaling) -> Table:
    sizes = weak.sizes
    efficiency = Column("efficiency", True, "below it: 95 % interval", on_terminal="both lines")
    columns = (
        numbers("accelerators", [each.accelerators for each in sizes], count),
        numbers("runs", [len(each.runs) for each in sizes], count),
        numbers("score", [each.flops_per_second for each in sizes], flops_per_second),
        numbers("regulated", [each.regulated_flops_per_second for each in sizes], flops_per_second),
        (efficiency, tuple(measured(each.efficiency, share, _interval(each, sizes[0])) for each in sizes)),
    )
    return table("sizes", "Score and efficiency by size", columns, footnote(weak))


def _interval(size: ClusterSize, smallest: ClusterSize) -> str:
    if size is smallest:
        return ""
    if size.efficiency_interval is None:
        return "not tested"
    low, high = size.efficiency_interval
    return f"{share(low)} to {share(high)}"


def footnote(weak: WeakScaling) -> str:
    """Return the source of the intervals as a sentence."""
    bases = {each.basis for each in weak.sizes}
    if bases == {"pooled"} and weak.spread is not None:
        return f"95 % intervals: spread of the repeats of all sizes, {weak.spread.text}."
    if None in bases:
        return "Not tested: the spread between runs is unknown. Repeat each size."
    return "95 % intervals rest on an assumed spread between runs where a size has fewer than three. Repeat each size."
