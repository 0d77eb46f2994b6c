"""Limits of the options of a run (types, ranges, allowed words), and the check of values against them.

Limits are plain values in the metadata of a field, since `cluster` and `searchers` do not import `aiperf`:

    ranks: int | None = field(default=None, metadata={"least": 1})

`least`, `above`, `most`, `below`: bounds of a number, or of each number of a list. `among`: allowed words, or a function that
returns them. `form`: regular expression of a whole text, or of each text of a list, and its description with an example.
`fewest`: least number of entries of a list. `unit`: unit, if the name of the field has none. All numbers are finite.
The type of a field is its annotation. Rules about several fields are checked by their classes.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from aiperf.errors import BadConfiguration
from aiperf.mistyped import short

BOUNDS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "least": (operator.ge, "at least"),
    "above": (operator.gt, "above"),
    "most": (operator.le, "at most"),
    "below": (operator.lt, "below"),
}
"""Comparison and words of each bound."""
KEYS = frozenset({*BOUNDS, "among", "form", "fewest", "unit", "records"})
"""Keys of the metadata. `records`: classes of the records of a list (aiperf/config.py)."""
WIDEST = 2**63 - 1
"""Largest whole number, since other programs read journals too."""
MOST_MEMORY = 2**60
"""Largest memory in bytes."""
LONGEST_SECONDS = 366 * 86400
"""Longest duration, of a run or of a wait."""
_NAMES = {int: "whole number", float: "number", bool: "true or false", str: "text", dict: "mapping"}
_ARTICLES = {int: "a ", float: "a ", dict: "a "}


@dataclass(frozen=True, slots=True)
class FieldLimits:
    """Limits of one option (field of a configuration dataclass): its types, and range or allowed words from its metadata."""

    types: tuple[type[Any], ...]
    """Types of the value, or of each entry of a list, without None."""
    or_none: bool
    of_list: bool
    metadata: Mapping[str, Any]

    @property
    def condition(self) -> str:
        """Limits as text to follow the name of the option: 'is at least 1'. '' for other types than numbers without limits."""
        parts = [self._bounds()] if self.is_number else []
        if words := self.among:
            parts.append(f"{'' if parts else 'is one of '}{', '.join(words)}")
        if form := self.metadata.get("form"):
            parts.append(f"is {form[1]}")
        condition = ", or ".join(parts)
        if self.of_list and condition:
            condition = f"each {condition}"
        fewest = self.metadata.get("fewest", 0)
        entries = f"has at least {fewest} {'entry' if fewest == 1 else 'entries'}" if fewest else ""
        return ", ".join(filter(None, [entries, condition]))

    @property
    def description(self) -> str:
        """Type, unit and range as text for the help: 'whole number or null; at least 1'."""
        limits = ""
        if self.metadata.keys() - {"unit", "records"}:
            limits = self.condition.removeprefix("is ").replace("each is ", "each ")
        null = " or null" if self.or_none else ""
        if self.types == (str,) and "among" in self.metadata:
            return f"{limits}{null}"
        kind = " or ".join(_NAMES.get(each, "record") for each in self.types)
        if self.of_list:
            kind = f"list of {kind if kind == 'text' else f'{kind}s'}"
        unit = f", {self.metadata['unit']}" if "unit" in self.metadata else ""
        return f"{kind}{unit}{null}{f'; {limits}' if limits else ''}"

    @property
    def among(self) -> Collection[str] | None:
        """Texts that are allowed as values. None if the option has no list of allowed texts."""
        among: Collection[str] | Callable[[], Collection[str]] | None = self.metadata.get("among")
        return among() if callable(among) else among

    @property
    def is_number(self) -> bool:
        """True if a value, or an entry of a list, may be a whole number or a floating-point number."""
        return int in self.types or float in self.types

    @property
    def kind(self) -> str:
        """Type as text with an article, for messages: 'a whole number or null'."""
        kind = " or ".join(_ARTICLES.get(each, "") + _NAMES.get(each, "a record") for each in self.types)
        return f"a list, each of which is {kind}" if self.of_list else f"{kind}{' or null' if self.or_none else ''}"

    def check_type(self, option: str, value: Any, text: str) -> None:
        """Raise BadConfiguration if a value has another type than this option. The range is not checked."""
        each = value if self.of_list and isinstance(value, list) else [value]
        fits = self.or_none if value is None else isinstance(value, list) == self.of_list
        if not fits or not all(one is None or isinstance(one, self._types_for(one)) for one in each):
            raise BadConfiguration(f"{option} is {self.kind}, but found {text}: give such a value, or leave it out")

    def _types_for(self, value: Any) -> tuple[type[Any], ...]:
        if isinstance(value, bool):
            return tuple(each for each in self.types if each is bool)
        return (*self.types, int) if float in self.types else self.types

    def require(self, option: str, value: Any) -> None:
        """Raise BadConfiguration if a value has another type or is outside the limits."""
        if not self.accepts(value):
            condition = self.condition if self.condition and value is not None else f"is {self.description}"
            raise BadConfiguration(
                f"{option} {condition}, but found {short(value)}: give such a value, or leave it out"
            )

    def accepts(self, value: Any) -> bool:
        """Return True if a value has an allowed type and is within the limits. None is accepted if the option may be null."""
        if value is None:
            return self.or_none
        if not self.of_list:
            return self._accepts(value)
        return (
            isinstance(value, list) and len(value) >= self.metadata.get("fewest", 0) and all(map(self._accepts, value))
        )

    def _accepts(self, value: Any) -> bool:
        if isinstance(value, bool):
            return bool in self.types
        if isinstance(value, str):
            form: tuple[str, str] | None = self.metadata.get("form")
            return (
                str in self.types
                and (self.among is None or value in self.among)
                and (form is None or re.fullmatch(form[0], value) is not None)
            )
        if isinstance(value, int):
            return self.is_number and -WIDEST <= value <= WIDEST and self._is_within(value)
        if isinstance(value, float):
            return float in self.types and math.isfinite(value) and self._is_within(value)
        return isinstance(value, self.types)

    def _is_within(self, number: float) -> bool:
        return all(holds(number, self.metadata[name]) for name, (holds, _) in BOUNDS.items() if name in self.metadata)

    def _bounds(self) -> str:
        bounds = {name: _written(self.metadata[name]) for name in BOUNDS if name in self.metadata}
        if bounds.keys() == {"least", "most"}:
            return f"is between {bounds['least']} and {bounds['most']}"
        parts = [f"{BOUNDS[name][1]} {value}" for name, value in bounds.items()]
        if float in self.types and not bounds.keys() & {"most", "below"}:
            parts.append("finite")
        return f"is {' and '.join(parts)}" if parts else f"is between {-WIDEST} and {WIDEST}"


def _written(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


type_hints: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)
"""Types of the fields of a dataclass, by name."""


def _limits_of(schema: type[Any]) -> Mapping[str, FieldLimits]:
    hints = type_hints(schema)
    limits = {}
    for each in fields(schema):
        unknown = each.metadata.keys() - KEYS
        assert not unknown, f"metadata of {schema.__name__}.{each.name} has unknown keys {unknown}"
        alternatives = (
            hints[each.name].__args__ if isinstance(hints[each.name], types.UnionType) else (hints[each.name],)
        )
        present = tuple(one for one in alternatives if one is not types.NoneType)
        of_list = typing.get_origin(present[0]) is list
        kinds = present[0].__args__ if of_list else tuple(typing.get_origin(one) or one for one in present)
        if all(kind in _NAMES for kind in kinds) or (of_list and is_dataclass(kinds[0])):
            limits[each.name] = FieldLimits(kinds, types.NoneType in alternatives, of_list, each.metadata)
    return limits


limits_of: Callable[[Any], Mapping[str, FieldLimits]] = functools.cache(_limits_of)


def hold(conf: Any, part: str = "") -> None:
    """Check all values of a configuration, with its nested dataclasses, against the limits of their fields."""
    for option, value, limits in _values(conf, part):
        limits.require(option, value)


def _values(conf: Any, part: str) -> Iterator[tuple[str, Any, FieldLimits]]:
    known = limits_of(type(conf))
    for each in fields(conf):
        option, value = f"{part}.{each.name}" if part else each.name, getattr(conf, each.name)
        if each.name in known:
            yield option, value, known[each.name]
        if is_dataclass(value):
            yield from _values(value, option)
        elif isinstance(value, list):
            for index, record in enumerate(value):
                if is_dataclass(record):
                    yield from _values(record, f"{option}.{index}")
