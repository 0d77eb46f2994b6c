"""Levels of HPC AI500 that a run satisfies against another run: options, machine descriptions, versions and data."""

from __future__ import annotations

from collections.abc import Iterator

from aiperf.comparison.comparability import RunDifference, differing
from aiperf.ranking.breaches import options
from aiperf.ranking.division import Division
from aiperf.ranking.levels import (
    DATA_LAYER,
    LayerDifference,
    LevelJudgement,
    described_difference,
    judgement,
    layer_difference,
    option_differences,
)
from aiperf.report.facts import Report

OF_BENCHMARK = frozenset({"declared length", "warm-up"})
"""Differences of the benchmark that are options."""
OPTIONS = ("space.", "system.")
"""Beginnings of the differences of the system that are options."""


def against_run(run: Report, reference: Report, by: Division) -> LevelJudgement:
    """Return the judgement of a run against another one."""
    differences = [*option_differences(options(run.run.config), options(reference.run.config), by)]
    differences += _others(differing(reference, run), by)
    return judgement(by, reference.run.name, differences, is_preset=False)


def _others(found: tuple[RunDifference, ...], by: Division) -> Iterator[LayerDifference]:
    """Yield the differences that are no options. `first` is the reference."""
    for each in found:
        if each.kind == "benchmark" and each.name not in OF_BENCHMARK:
            yield layer_difference(each.name, DATA_LAYER, each.second, each.first, by)
        elif each.kind in ("system", "versions") and not each.name.startswith(OPTIONS):
            described = described_difference(_described_name(each), each.second, each.first, by)
            if described is not None:
                yield described


def _described_name(each: RunDifference) -> str:
    """Return the name in the division's table.

    Hosts of several kinds are numbered ("2: os"). Versions that differ after "+" only are builds of one version.
    """
    if each.kind == "versions" and each.first.partition("+")[0] == each.second.partition("+")[0]:
        return each.name if each.name.startswith("source") else f"build.{each.name}"
    return each.name.rpartition(": ")[2]
