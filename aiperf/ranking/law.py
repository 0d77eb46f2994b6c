"""Conditions of rules on one value (laws), written in the YAML of a division. equals: 6 exactly this value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, assert_never

Plain = str | int | float | bool | None | list[Any]
Kind = Literal["truth", "number", "word", "words", "table"]
"""Type of a fact: true or false, a number, a text, several texts, or named values."""


class NoLaw(ValueError):
    """Invalid condition in a division file."""


@dataclass(frozen=True, slots=True)
class Equals:
    """Condition that a value is exactly `value`."""

    value: Plain

    def holds(self, found: Any, options: Mapping[str, Any]) -> bool:
        """Return True if the found value equals the required one. 20 equals 20.0. 1 is not True. `options` is not used."""
        return _is_same(found, self.value)

    def __str__(self) -> str:
        return written(self.value)


@dataclass(frozen=True, slots=True)
class AtMost:
    """Condition that a number is at most `bound`."""

    bound: float

    def holds(self, found: Any, options: Mapping[str, Any]) -> bool:
        """Return True if the found value is a number of at most the bound. False for other types. `options` is not used."""
        return _is_number(found) and found <= self.bound

    def __str__(self) -> str:
        return f"at most {written(self.bound)}"


@dataclass(frozen=True, slots=True)
class AtMostOption:
    """Condition that a number is at most the value of the option `option` in the run's configuration."""

    option: str

    def holds(self, found: Any, options: Mapping[str, Any]) -> bool:
        """Return True if the found value is a number of at most the option's value."""
        bound = options.get(self.option)
        return _is_number(found) and (bound is None or (_is_number(bound) and found <= bound))

    def __str__(self) -> str:
        return f"at most {self.option}"


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Condition that a number is at least `bound`."""

    bound: float

    def holds(self, found: Any, options: Mapping[str, Any]) -> bool:
        """Return True if the found value is a number of at least the bound. False for other types. `options` is not used."""
        return _is_number(found) and found >= self.bound

    def __str__(self) -> str:
        return f"at least {written(self.bound)}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """Condition that a value, or each of several values, is one of `values`."""

    values: tuple[Plain, ...]

    def holds(self, found: Any, options: Mapping[str, Any]) -> bool:
        """Return True if the found value is one of the permitted values. `options` is not used."""
        several = found if isinstance(found, frozenset | tuple) else (found,)
        return all(any(_is_same(each, value) for value in self.values) for each in several)

    def __str__(self) -> str:
        return f"one of {', '.join(map(written, self.values))}"


@dataclass(frozen=True, slots=True)
class Has:
    """Condition that a table (values by name) has all entries of `values`. Other entries are permitted."""

    values: tuple[tuple[str, Plain], ...]

    def holds(self, found: Any, options: Mapping[str, Any]) -> bool:
        """Return True if the found table has all required names with their values. `options` is not used."""
        return all(name in found and _is_same(found[name], value) for name, value in self.values)

    def __str__(self) -> str:
        return ", ".join(f"{name} {written(value)}" for name, value in self.values)


@dataclass(frozen=True, slots=True)
class Empty:
    """Condition that there is no value."""

    def holds(self, found: Any, options: Mapping[str, Any]) -> bool:
        """Return True if the found value is empty, 0 or None. `options` is not used."""
        return not found

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Condition that all conditions in `laws` hold."""

    laws: tuple[Law, ...]

    def holds(self, found: Any, options: Mapping[str, Any]) -> bool:
        """Return True if all conditions hold for the found value. `options`: the run's configuration by dotted names."""
        return all(law.holds(found, options) for law in self.laws)

    def __str__(self) -> str:
        return ", ".join(map(str, self.laws))


Law = Equals | AtMost | AtMostOption | AtLeast | OneOf | Has | Empty | AllOf
_TAKES = {
    "equals": "a text, a number, true, false, null or a list of them",
    "at_most": "a number, or {option: NAME}",
    "at_least": "a number",
    "one_of": "a list of one value or more",
    "has": "names, each with its value",
    "empty": "true",
    "all_of": "a list of two laws or more",
}


def law_of(mapping: Any) -> Law:
    """Return the condition that a mapping from a division file describes, such as {'at_most': 3}."""
    if not isinstance(mapping, dict) or len(mapping) != 1 or next(iter(mapping)) not in _TAKES:
        raise NoLaw(
            f"the key law takes one of {', '.join(_TAKES)} with its value, such as {{at_most: 3}}, but found {mapping!r}"
        )
    ((word, value),) = mapping.items()
    match word, value:
        case "equals", _ if _is_plain(value):
            return Equals(value)
        case "at_most", {"option": str(option)} if len(value) == 1:
            return AtMostOption(option)
        case "at_most", int() | float() if _is_number(value):
            return AtMost(value)
        case "at_least", int() | float() if _is_number(value):
            return AtLeast(value)
        case "one_of", [_, *_] if all(map(_is_plain, value)):
            return OneOf(tuple(value))
        case "has", dict() if value and all(isinstance(name, str) and _is_plain(each) for name, each in value.items()):
            return Has(tuple(value.items()))
        case "empty", True:
            return Empty()
        case "all_of", [_, _, *_]:
            return AllOf(tuple(map(law_of, value)))
    raise NoLaw(f"{word} takes {_TAKES[word]}, but found {value!r}")


def fits(law: Law, kind: Kind) -> str | None:
    """Return the reason why a condition can never hold for values of this type. None if it can hold."""
    match law:
        case AtMost() | AtMostOption() | AtLeast():
            return None if kind == "number" else "it is about a number"
        case Has():
            return None if kind == "table" else "it is about a table"
        case Empty():
            return None if kind == "words" else "it is about several values"
        case OneOf(values):
            wrong = [value for value in values if not _is_of(value, "word" if kind == "words" else kind)]
            return f"it never has the value {written(wrong[0])}" if wrong else None
        case Equals(value):
            return None if _is_of(value, kind) else f"it never has the value {written(value)}"
        case AllOf(laws):
            return next((why for each in laws if (why := fits(each, kind)) is not None), None)
        case _:
            assert_never(law)


def written(value: Any) -> str:
    """Return a value as text in the form of the command line, such as `true`, `null`, `0.5` or `[1,2]`."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case list() | tuple():
            return f"[{','.join(map(written, value))}]"
        case _:
            return str(value)


def _is_of(value: Plain, kind: Kind) -> bool:
    match kind:
        case "truth":
            return isinstance(value, bool)
        case "number":
            return _is_number(value)
        case "word":
            return isinstance(value, str)
        case "words" | "table":
            return False
        case _:
            assert_never(kind)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(found: Any, value: Any) -> bool:
    """Compare values and lists: 1 differs from True, and 20 equals 20.0."""
    if isinstance(found, list) and isinstance(value, list):
        return len(found) == len(value) and all(map(_is_same, found, value))
    return bool(found == value) and isinstance(found, bool) == isinstance(value, bool)
