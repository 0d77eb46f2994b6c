"""Levels of HPC AI500 (Figure 2, section 3.1): which differences from a reference run they permit, by layer of the system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from aiperf import bounded_yaml

DIVISION = "hpc_ai500"
"""Name of the division with levels."""
MISSING = "—"
"""Text for a value that one side does not have."""


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    layer: int
    as_reference: list[str]


class _Levels(msgspec.Struct, forbid_unknown_fields=True):
    """Content of divisions/hpc_ai500.yaml."""

    layers: dict[int, str]
    levels: dict[str, list[int | str]]
    rules: dict[str, _Rule]
    described: dict[str, int]
    free: dict[str, str]


@cache
def rules() -> _Levels:
    """Return the layers, levels and rules in the file divisions/hpc_ai500.yaml."""
    text = files("aiperf.ranking").joinpath("divisions", f"{DIVISION}.yaml").read_text("utf-8")
    return msgspec.convert(bounded_yaml.load(text), _Levels)


@dataclass(frozen=True, slots=True)
class LayerDifference:
    name: str
    layer: int | None
    """Number of the layer, 1 (hardware) to 9 (data). None for a name without a layer, which no level opens."""
    run: str
    reference: str
    open_at: tuple[str, ...]
    """Levels that permit the difference, the strictest first."""


def layer_of(name: str) -> int | None:
    """Return the number of the layer (1: hardware, …, 9: data) of an option or a machine's property. None without a layer."""
    rule = rule_of(name)
    if rule is not None:
        return rules().rules[rule].layer
    return next((layer for each, layer in rules().described.items() if _covers(each, name)), None)


def layer_differences(run: Mapping[str, str], reference: Mapping[str, str]) -> tuple[LayerDifference, ...]:
    """Return the names with different values in a run and its reference, in order of their layers (1: hardware, …, 9: data)."""
    differences = []
    for name in dict.fromkeys((*run, *reference)):
        own, other = run.get(name, MISSING), reference.get(name, MISSING)
        if own != other and not any(_covers(each, name) for each in rules().free):
            layer, rule = layer_of(name), rule_of(name)
            levels = rules().levels.items()
            open_at = tuple(level for level, opened in levels if layer in opened or rule in opened)
            differences.append(LayerDifference(name, layer, own, other, open_at))
    return tuple(sorted(differences, key=lambda each: (each.layer is None, each.layer or 0)))


def levels_of(differences: Iterable[LayerDifference]) -> tuple[str, ...]:
    """Return the names of the levels that permit all of these differences, the strictest first: hardware, system and free."""
    return tuple(level for level in rules().levels if all(level in each.open_at for each in differences))


def rule_of(name: str) -> str | None:
    return next(
        (id for id, rule in rules().rules.items() if any(_covers(each, name) for each in rule.as_reference)), None
    )


def is_of_step(option: str) -> bool:
    """Return True if an option defines the computation of a training step. Runs that do the same work have the same value."""
    return option == "dataset.augment" or rule_of(option) in ("learning-rate", "optimiser")


def _covers(beginning: str, name: str) -> bool:
    """Return whether a name in the rules is this name, or a part of the configuration or a description with it."""
    return name == beginning or name.startswith((f"{beginning}.", f"{beginning} "))
