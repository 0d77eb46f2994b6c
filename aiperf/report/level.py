"""Levels of HPC AI500 that a run satisfies against the values of its preset, and the rows of a judgement by layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiperf.config import as_plain, configure
from aiperf.ranking.breaches import options
from aiperf.ranking.division import Division
from aiperf.ranking.levels import (
    DATA_LAYER,
    MISSING,
    LayerDifference,
    LevelJudgement,
    judgement,
    layer_difference,
    option_differences,
)
from aiperf.report.facts import Report
from aiperf.rules.limits import NOT_PUBLISHED

WITHOUT_DESCRIPTION = (1, 2, 3, 4, 5)
"""Layers of the machine and its software."""


@dataclass(frozen=True, slots=True)
class LayerRow:
    """Differences in one layer."""

    layer: str
    """Number and name."""
    differences: tuple[LayerDifference, ...]
    is_compared: bool
    """False if the reference has no description of the layer. Its options are compared in any case."""
    open_at: tuple[str, ...]
    """Levels that permit these differences."""


def rows(judged: LevelJudgement) -> Iterator[LayerRow]:
    """Yield a row for each layer, and one for differences without a layer if there are any."""
    for number, name in [*judged.layers.items(), (None, "unknown to this release")]:
        found = tuple(each for each in judged.differences if each.layer == number)
        is_compared = not (judged.is_preset and number in WITHOUT_DESCRIPTION)
        if number is not None or found:
            yield LayerRow(f"{number or '—'} {name}", found, is_compared, judged.open_at(found))


def in_words(difference: LayerDifference) -> str:
    """Return a difference as a line of text."""
    return f"{difference.name}: {difference.run}, reference {difference.reference}"


def preset_of(report: Report) -> str | None:
    """Return the name of the run's preset. None for the AutoML benchmark."""
    benchmark: dict[str, Any] | None = report.run.config.get("benchmark")
    return None if benchmark is None else str(benchmark["name"])


def against_preset(report: Report, preset: str, by: Division) -> LevelJudgement:
    """Return the judgement of a run against the values of a preset. The machine is not compared.

    Data with the name of the published set but with other images are a difference too.
    """
    values = options(as_plain(configure([f"benchmark={preset}"])))
    differences = [*option_differences(options(report.run.config), values, by)]
    is_published = report.fixed_network is None or report.fixed_network.is_published_workload
    if not is_published and not any(each.layer in (7, DATA_LAYER) for each in differences):
        differences.append(layer_difference("images", DATA_LAYER, NOT_PUBLISHED, MISSING, by))
    return judgement(by, preset, differences, is_preset=True)
