"""Files that users name: text, JSON and YAML within limits. Each fault of a file has one error, in words."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from aiperf import bounded_yaml
from aiperf.errors import AiperfError, BadConfiguration
from aiperf.files import read_bounded, shown, what_is_wrong_with

T = TypeVar("T")
Fault = Callable[[str], AiperfError]
"""Exception for a file, from the words that follow its path: 'is a directory'."""
LARGEST = 16 << 20
"""Bytes of a file that is read whole, if its reader names no other limit."""


class BadJson(ValueError):
    """A text that is no JSON or exceeds a limit."""


def fault_of(path: Path, rule: str, fix: str, error: type[AiperfError] = BadConfiguration) -> Fault:
    """Return the error of a file, as a function of the words after 'which': RULE, but found PATH, which WORDS: FIX."""
    return lambda words: error(f"{rule}, but found {shown(path)}, which {words}: {fix}")


def read_bytes(path: Path, rule: str, fix: str, *, error: type[AiperfError], largest: int) -> bytes:
    """Return the content of a file. For the arguments and the error, see `read_text`."""
    try:
        return read_bounded(path, largest)
    except OSError as failed:
        wrong = what_is_wrong_with(path)
        fault = f"is {wrong}" if wrong else f"cannot be read ({failed.strerror})"
        raise fault_of(path, rule, fix, error)(fault) from failed


def read_text(path: Path, rule: str, fix: str = "name such a file", *, error: type[AiperfError] = BadConfiguration,
              largest: int = LARGEST, errors: str = "strict") -> str:  # fmt: skip
    """Return the text of a file in UTF-8, without a byte order mark."""
    fault = fault_of(path, rule, fix, error)
    try:
        text = read_bytes(path, rule, fix, error=error, largest=largest).decode("utf-8-sig", errors)
    except UnicodeDecodeError as failed:
        raise fault(f"is no text in UTF-8 ({failed.reason} at byte {failed.start})") from failed
    if "\0" in text:
        raise fault(f"is no text (a null byte at character {text.index(chr(0))})")
    return text


def read_csv(path: Path, rule: str, fix: str = "name such a file", delimiters: str = ",") -> list[list[str]]:
    """Return the rows of a CSV file, without spaces around the cells. The first line tells which delimiter it has."""
    text = read_text(path, rule, fix)
    delimiter = max(delimiters, key=text.partition("\n")[0].count)
    try:
        rows = [*csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)]
    except csv.Error as error:
        raise fault_of(path, rule, fix)(f"is no CSV ({error})") from error
    return [[cell.strip() for cell in row] for row in rows]


def read_json(path: Path, rule: str, of: type[T], fix: str = "name such a file", *,
              error: type[AiperfError] = BadConfiguration, largest: int = LARGEST) -> T:  # fmt: skip
    """Return the content of a JSON file as a value of the type `of` (msgspec.convert). For the others, see `read_text`."""
    text = read_text(path, rule, fix, error=error, largest=largest)
    fault = fault_of(path, rule, fix, error)
    try:
        return msgspec.convert(load_json(text), of, str_keys=True)
    except BadJson as failed:
        raise fault(f"is no JSON ({failed})") from failed
    except msgspec.ValidationError as failed:
        raise fault(f"has other content ({failed})") from failed


def read_yaml(path: Path, rule: str, of: type[T], fix: str = "name such a file", *,
              error: type[AiperfError] = BadConfiguration) -> T:  # fmt: skip
    """Return the content of a YAML file as a value of the type `of` (msgspec.convert). For the others, see `read_text`."""
    text = read_text(path, rule, fix, error=error, largest=bounded_yaml.LARGEST_FILE)
    fault = fault_of(path, rule, fix, error)
    try:
        return msgspec.convert(bounded_yaml.load(text), of)
    except bounded_yaml.BadYaml as failed:
        raise fault(f"is not valid YAML ({failed})") from failed
    except msgspec.ValidationError as failed:
        raise fault(f"has other content ({failed})") from failed


def load_json(text: str) -> Any:
    try:
        value = json.loads(text, object_pairs_hook=_object)
        _check(value, 0)
    except RecursionError:
        raise BadJson(f"its values are nested at most {bounded_yaml.DEEPEST} deep") from None
    except BadJson:
        raise
    except ValueError as error:
        raise BadJson(" ".join(str(error).split())) from error
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise BadJson(f"each key occurs once, but {twice[:80]!r} occurs twice")
    return made


def _check(value: Any, depth: int) -> None:
    if depth > bounded_yaml.DEEPEST:
        raise RecursionError
    match value:
        case dict():
            for key, each in value.items():
                _check(key, depth)
                _check(each, depth + 1)
        case list():
            for each in value:
                _check(each, depth + 1)
        case str() if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise BadJson(f"a text has half a character, {value[error.start]!a}") from error
        case int() if abs(value) > bounded_yaml.LARGEST_NUMBER:
            raise BadJson("a number is at most 2^63, but one is larger")
        case float() if not math.isfinite(value):
            raise BadJson(f"a number is finite, but found {value!r}")
