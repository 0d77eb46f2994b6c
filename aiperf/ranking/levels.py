"""Levels of HPC AI500 (Figure 2, section 3.1): differences of a run from a reference, by layer of the system.

A level opens layers and rules. A run satisfies a level if all its differences from the reference are open there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiperf.ranking.division import Division, Rule
from aiperf.ranking.law import AsReference, Equals, written

DATA_LAYER = 9
MISSING = "—"
"""Text for a value that a run does not have."""


@dataclass(frozen=True, slots=True)
class LayerDifference:
    """One difference between a run and its reference."""

    name: str
    layer: int | None
    """None for a name without a layer, which no level opens."""
    run: str
    reference: str
    open_at: tuple[str, ...]
    """Levels that permit the difference, the strictest first."""


@dataclass(frozen=True, slots=True)
class LevelJudgement:
    """Levels that a run satisfies against a reference."""

    division: str
    reference: str
    """Name of the reference: a run or a preset."""
    is_preset: bool
    """True if the machine and its software were not compared, because a preset has no description of them."""
    layers: Mapping[int, str]
    levels: tuple[str, ...]
    """The strictest level first."""
    differences: tuple[LayerDifference, ...]
    """In order of their layers. Those without a layer last."""

    @property
    def satisfied(self) -> tuple[str, ...]:
        """Levels that permit every difference, the strictest first."""
        return self.open_at(self.differences)

    def open_at(self, differences: Iterable[LayerDifference]) -> tuple[str, ...]:
        """Return the levels that permit all of these differences, the strictest first."""
        return tuple(level for level in self.levels if all(level in each.open_at for each in differences))

    @property
    def strictest(self) -> str | None:
        """The strictest level that the run satisfies. None if it satisfies no level."""
        return next(iter(self.satisfied), None)


def judgement(
    by: Division, reference: str, differences: Iterable[LayerDifference], *, is_preset: bool
) -> LevelJudgement:
    """Return the judgement of differences."""
    ordered = sorted(differences, key=lambda each: (each.layer is None, each.layer or 0))
    return LevelJudgement(by.name, reference, is_preset, by.layers, tuple(by.levels), tuple(ordered))


def option_differences(run: Mapping[str, Any], reference: Mapping[str, Any], by: Division) -> Iterator[LayerDifference]:
    """Yield the broken rules of two configurations by dotted names, and the unequal options that the division does not name."""
    for name in dict.fromkeys((*run, *reference)):
        rule = rule_of(name, by)
        if not _names(by.free, name) and not _holds(rule, run, reference, name):
            yield LayerDifference(
                name,
                None if rule is None else rule.layer,
                written(run[name]) if name in run else MISSING,
                written(reference[name]) if name in reference else MISSING,
                () if rule is None else tuple(level for level in by.levels if _opens(by, level, rule)),
            )


def rule_of(option: str, by: Division) -> Rule | None:
    """Return the rule about an option or about its part of the configuration."""
    return next((rule for rule in by.rules if rule.option is not None and _names((rule.option,), option)), None)


def described_difference(name: str, run: str, reference: str, by: Division) -> LayerDifference | None:
    """Return the difference of a name in the machine descriptions or the versions. None if the name is not compared."""
    known = next((each for each in by.described if _names((each,), name)), None)
    if known is not None and by.described[known] is None:
        return None
    return layer_difference(name, None if known is None else by.described[known], run, reference, by)


def layer_difference(name: str, layer: int | None, run: str, reference: str, by: Division) -> LayerDifference:
    """Return a difference in a layer, which the levels with this layer open."""
    return LayerDifference(
        name, layer, run, reference, tuple(level for level, opened in by.levels.items() if layer in opened)
    )


def _names(names: Iterable[str], option: str) -> bool:
    """Return whether one of the names is the option, or a part of the configuration with it."""
    return any(option == name or option.startswith(f"{name}.") for name in names)


def _opens(by: Division, level: str, rule: Rule) -> bool:
    return rule.layer in by.levels[level] or rule.id in by.levels[level]


def _holds(rule: Rule | None, run: Mapping[str, Any], reference: Mapping[str, Any], name: str) -> bool:
    if rule is None or isinstance(rule.law, AsReference):
        return (name in run) == (name in reference) and Equals(reference.get(name)).holds(run.get(name), {})
    return rule.law.holds(run.get(name), run)
