"""Weak scaling of whole clusters: score per accelerator for each size, against the smallest size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from aiperf.comparison.comparability import Side, require_each_once, require_one_benchmark, side
from aiperf.errors import CannotCompare
from aiperf.journal.run_folder import run_folders
from aiperf.page.section import Table, numbers, table
from aiperf.units import count, flops_per_second, share


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


def cluster_sizes(words: Sequence[str]) -> tuple[ClusterSize, ...]:
    """Read runs and return them grouped by number of accelerators, the smallest first, with mean score and efficiency."""
    sides = [side([str(folder)]) for word in words for folder in run_folders(word)]
    require_each_once([folder for each in sides for folder in each.folders])
    by_size: dict[int, list[Side]] = {}
    for each in sides:
        require_one_benchmark(sides[0], each)
        by_size.setdefault(each.runs[0].hardware.accelerators, []).append(each)
    if len(by_size) < 2:
        raise CannotCompare(
            f"--scaling compares sizes, but found {len(sides)} runs with {min(by_size)} accelerators: add a run of another size"
        )
    least = min(by_size)
    alone = fmean([each.runs[0].score.flops_per_second or 0.0 for each in by_size[least]]) / least
    return tuple(_size(accelerators, by_size[accelerators], alone) for accelerators in sorted(by_size))


def _size(accelerators: int, sides: Sequence[Side], alone: float) -> ClusterSize:
    scores = [each.runs[0].score for each in sides]
    mean = fmean([score.flops_per_second or 0.0 for score in scores])
    return ClusterSize(
        accelerators=accelerators,
        runs=tuple(each.name for each in sides),
        flops_per_second=mean,
        regulated_flops_per_second=fmean([score.regulated_flops_per_second or 0.0 for score in scores]),
        efficiency=mean / accelerators / alone,
    )


def size_table(found: Sequence[ClusterSize]) -> Table:
    columns = (
        numbers("accelerators", [each.accelerators for each in found], count),
        numbers("runs", [len(each.runs) for each in found], count),
        numbers("score", [each.flops_per_second for each in found], flops_per_second),
        numbers("regulated", [each.regulated_flops_per_second for each in found], flops_per_second),
        numbers("efficiency", [each.efficiency for each in found], share),
    )
    return table("sizes", "", columns)
