"""Limits of configured fields, and the check of values against them.

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
import re
import types
import typing
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from aiperf.errors import BadConfiguration

BOUNDS = ("least", "above", "most", "below")
KEYS = frozenset({*BOUNDS, "among", "form", "fewest", "unit", "records"})
"""Keys of the metadata. `records`: classes of the records of a list (aiperf/config.py)."""
WIDEST = 2**63 - 1
"""Largest whole number, since other programs read journals too."""
MOST_MEMORY = 2**60
"""Largest memory in bytes."""
LONGEST_SECONDS = 366 * 86400
"""Longest duration, of a run or of a wait."""
_NAMES = {int: "whole number", float: "number", bool: "true or false", str: "text"}
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


@dataclass(frozen=True, slots=True)
class FieldLimits:
    """Limits of one field."""

    types: tuple[type[Any], ...]
    """Types of the value, or of each entry of a list, without None."""
    or_none: bool
    of_list: bool
    told: Mapping[str, Any]
    """Metadata of the field."""

    @property
    def words(self) -> str:
        """Limits as a sentence after the name of the field: 'is at least 1'."""
        said = [self._numbers()] if self.is_number else []
        if among := self.among:
            said.append(f"{'' if said else 'is one of '}{', '.join(among)}")
        if form := self.told.get("form"):
            said.append(f"is {form[1]}")
        law = ", or ".join(said)
        fewest = self.told.get("fewest", 0)
        entries = [f"has at least {fewest} {'entry' if fewest == 1 else 'entries'}"] if fewest else []
        return ", ".join([*entries, *([f"each {law}" if self.of_list else law] if law else [])])

    @property
    def described(self) -> str:
        """Type, unit and range, for a list of options: 'whole number or null; at least 1'."""
        kind = " or ".join(_NAMES.get(each, "record") for each in self.types)
        unit = f", {self.told['unit']}" if "unit" in self.told else ""
        of_words = self.types == (str,) and "among" in self.told
        law = (
            self.words.removeprefix("is ").replace("each is ", "each ")
            if self.told.keys() - {"unit", "records"}
            else ""
        )
        null = " or null" if self.or_none else ""
        if of_words:
            return f"{law}{null}"
        kinds = f"list of {kind if kind == 'text' else f'{kind}s'}" if self.of_list else kind
        return f"{kinds}{unit}{null}{f'; {law}' if law else ''}"

    @property
    def among(self) -> Collection[str] | None:
        """Allowed words. None if any text is allowed."""
        told: Collection[str] | Callable[[], Collection[str]] | None = self.told.get("among")
        return told() if callable(told) else told

    @property
    def is_number(self) -> bool:
        """True if the field accepts numbers."""
        return int in self.types or float in self.types

    @property
    def kind(self) -> str:
        """Type as text: 'a whole number or null'."""
        one = " or ".join(_KINDS.get(each, "a record") for each in self.types)
        return f"a list, each of which is {one}" if self.of_list else f"{one}{' or null' if self.or_none else ''}"

    def check_type(self, option: str, value: Any, typed: str) -> None:
        """Raise BadConfiguration for a value of another type. `typed`: the value as the user wrote it."""
        each = value if self.of_list and isinstance(value, list) else [value]
        fits = self.or_none if value is None else isinstance(value, list) == self.of_list
        if not fits or not all(one is None or isinstance(one, self._accepted(one)) for one in each):
            raise BadConfiguration(f"{option} is {self.kind}; found {typed}: give such a value, or leave it out")

    def _accepted(self, value: Any) -> tuple[type[Any], ...]:
        if isinstance(value, bool):
            return tuple(each for each in self.types if each is bool)
        return (*self.types, int) if float in self.types else self.types

    def take(self, value: Any) -> bool:
        """Return True if the field accepts the value."""
        if value is None:
            return self.or_none
        if not self.of_list:
            return self._takes(value)
        return isinstance(value, list) and len(value) >= self.told.get("fewest", 0) and all(map(self._takes, value))

    def _takes(self, value: Any) -> bool:
        if isinstance(value, bool):
            return bool in self.types
        if isinstance(value, str):
            form: tuple[str, str] | None = self.told.get("form")
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
        least, above, most, below = (self.told.get(name) for name in BOUNDS)
        return (
            (least is None or number >= least)
            and (above is None or number > above)
            and (most is None or number <= most)
            and (below is None or number < below)
        )

    def _numbers(self) -> str:
        told = {name: _written(self.told[name]) for name in BOUNDS if name in self.told}
        if told.keys() == {"least", "most"}:
            return f"lies between {told['least']} and {told['most']}"
        words = {"least": "at least", "above": "above", "most": "at most", "below": "below"}
        said = [f"{words[name]} {value}" for name, value in told.items()]
        if float in self.types and not told.keys() & {"most", "below"}:
            said.append("finite")
        return f"is {' and '.join(said)}" if said else f"lies between {-WIDEST} and {WIDEST}"


def _written(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def limits_of(schema: type[Any]) -> Mapping[str, FieldLimits]:
    """Return the limits of each field with plain values, a list of them, or a list of records of one class."""
    return _limits_of(typing.cast(Hashable, schema))


@functools.cache
def _limits_of(schema: Hashable) -> Mapping[str, FieldLimits]:
    assert isinstance(schema, type) and is_dataclass(schema)
    hints = typing.get_type_hints(schema)
    found = {}
    for each in fields(schema):
        unknown = each.metadata.keys() - KEYS
        assert not unknown, f"{schema.__name__}.{each.name} says {unknown}, which nobody reads"
        several = hints[each.name].__args__ if isinstance(hints[each.name], types.UnionType) else (hints[each.name],)
        told = tuple(one for one in several if one is not types.NoneType)
        of_list = typing.get_origin(told[0]) is list
        kinds = told[0].__args__ if of_list else told
        if all(kind in _NAMES for kind in kinds) or (of_list and is_dataclass(kinds[0])):
            found[each.name] = FieldLimits(kinds, types.NoneType in several, of_list, each.metadata)
    return found


def hold(conf: Any, part: str = "") -> None:
    """Raise BadConfiguration for the first value that its field does not accept.

    `part`: name of the part: 'trainer', 'cluster.links.0'. '' for a whole run.
    """
    for option, value, limits in _values(conf, part):
        if not limits.take(value):
            law = limits.words if limits.words and value is not None else f"is {limits.described}"
            raise BadConfiguration(f"{option} {law}; found {value!r}: give such a value, or leave it out")


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
