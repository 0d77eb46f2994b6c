"""Comparison of runs that differ in one option: ratios of images per second, and the difference of their quality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import fmean, geometric_mean

from aiperf.errors import BadConfiguration, CannotCompare
from aiperf.nearest import nearest
from aiperf.scaling.efficiency import images_per_second, ratios_of_rounds
from aiperf.scaling.point import Point
from aiperf.statistics.difference import RelativeChange, change
from aiperf.statistics.estimate import of_repeats
from aiperf.statistics.interleaved import FEWEST_PAIRS, interval_of_median

MACHINE = "machine"
"""Word of --by for the model of the accelerator or processor."""


@dataclass(frozen=True, slots=True)
class OptionValue:
    value: str
    ratio: float
    """Images per second ÷ those with the first value: geometric mean over the blocks."""
    interval: tuple[float, float] | None
    """95 % interval of the median of the rounds. None for fewer than 6 rounds."""
    rounds: int
    """Number of rounds that every block has."""
    block_ratios: dict[str, float]
    """Ratio by block, which is one combination of the other swept options."""
    quality: float
    """Mean quality after the last epoch."""
    quality_change: RelativeChange | None
    """Change of the quality from the first value, by Welch's test. None for a quality of 0."""


@dataclass(frozen=True, slots=True)
class OptionRatios:
    option: str
    follows: tuple[str, ...]
    """Options that change together with it. Their effects cannot be separated."""
    groups: dict[str, tuple[Point, ...]]
    """Runs by value, in the order of their first starts."""
    values: tuple[OptionValue, ...]


def option_ratios(points: Sequence[Point], option: str, evaluation: Fraction) -> OptionRatios:
    """Return runs (`points`) grouped by the values of an option, and the speed of each group relative to the first group."""
    described = [_described(each) for each in points]
    if not all(option in each for each in described):
        raise BadConfiguration(
            f"--by is an option of the runs, or {MACHINE}, but found {option!r}{nearest(option, list(described[0]))}: name "
            "the option that was swept"
        )
    ordered = sorted(zip(points, described, strict=True), key=lambda each: each[0].started_unix)
    values = list(dict.fromkeys(each[option] for _, each in ordered))
    if len(values) < 2:
        raise CannotCompare(
            f"--by compares values of an option, but found {option}={values[0]} in all runs: add runs with another value"
        )
    differing = [name for name in described[0] if name != option and len({each.get(name) for each in described}) > 1]
    follows = [name for name in differing if all(_is_constant(ordered, option, value, name) for value in values)]
    inside = [name for name in differing if name not in follows]
    blocks: dict[str, dict[str, list[Point]]] = {}
    for point, each in ordered:
        block = " ".join(f"{name}={each[name]}" for name in inside)
        blocks.setdefault(block, {}).setdefault(each[option], []).append(point)
    lacking = [f"{block} lacks {value}" for block, own in blocks.items() for value in values if value not in own]
    if lacking:
        raise CannotCompare(
            f"runs that differ elsewhere than in {option} need all of its values, but found {'; '.join(lacking)}: leave "
            "these runs out, or add the missing ones"
        )
    groups = {value: tuple(point for point, each in ordered if each[option] == value) for value in values}
    compared = tuple(_value(value, values[0], blocks, groups, evaluation) for value in values)
    return OptionRatios(option, tuple(follows), groups, compared)


def _described(point: Point) -> dict[str, str]:
    return point.options | {
        MACHINE: point.machine.device,
        "network": point.network,
        "data": point.data,
        "ranks": str(point.accelerators),
        "hosts": str(point.hosts),
        "simulated": str(point.is_simulated),
    }


def _is_constant(ordered: Sequence[tuple[Point, dict[str, str]]], option: str, value: str, name: str) -> bool:
    return len({each.get(name) for _, each in ordered if each[option] == value}) == 1


def _value(
    value: str,
    first: str,
    blocks: dict[str, dict[str, list[Point]]],
    groups: dict[str, tuple[Point, ...]],
    evaluation: Fraction,
) -> OptionValue:
    rounds = [ratios_of_rounds(block[value], block[first], evaluation) for block in blocks.values()]
    together = [geometric_mean(each) for each in zip(*rounds, strict=False)]
    ratios = {
        block: images_per_second(own[value], evaluation) / images_per_second(own[first], evaluation)
        for block, own in blocks.items()
    }
    mine, base = groups[value], groups[first]
    qualities = [[each.quality for each in some] for some in (base, mine)]
    return OptionValue(
        value=value,
        ratio=geometric_mean(ratios.values()),
        interval=interval_of_median(together) if len(together) >= FEWEST_PAIRS and value != first else None,
        rounds=len(together),
        block_ratios=ratios,
        quality=fmean(qualities[1]),
        quality_change=None
        if value == first
        else change(fmean(qualities[0]), fmean(qualities[1]), *map(of_repeats, qualities)),
    )
