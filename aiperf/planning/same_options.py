"""Whether options that are given for a run which has begun already are those that stand in its journal.

A batch job that is queued again repeats the command it was submitted with, so equal options pass. A run keeps the configuration
that it began with; another one, given for it, would be ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aiperf.config import RunConf, as_plain
from aiperf.errors import BadConfiguration


def require_same(words: Sequence[str], given: RunConf, held: RunConf, run: str) -> None:
    """`words`: as they were typed, and `given` what they make; `held`: what the run's journal holds.

    Raises:
        BadConfiguration: one of the words says otherwise than the journal; all such are named.
    """
    differing = list(differences(words, as_plain(given), as_plain(held)))
    if differing:
        raise BadConfiguration(
            f"a run keeps the configuration that it began with; '{run}' has {'; '.join(differing)}: leave what differs out, or "
            "begin another run in a folder of its own"
        )


def differences(words: Sequence[str], given: dict[str, Any], held: dict[str, Any]) -> Iterator[str]:
    """Each option that a word names and that the two configurations have otherwise, in words."""
    said: set[str] = set()
    for word in words:
        part, _, name = word.lstrip("+~").partition("=")[0].partition(".")
        name = name.partition(".")[0]  # of a field of a record: the whole list is compared
        for option, ours, theirs in _compared(part, name, given, held):
            if ours != theirs and option not in said:
                said.add(option)
                yield f"{option}={_written(theirs)}, not {_written(ours)}"


def _compared(part: str, name: str, given: dict[str, Any], held: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    ours, theirs = given.get(part), held.get(part)
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        yield part, _short(ours), _short(theirs)
    elif name:
        yield f"{part}.{name}", ours.get(name), theirs.get(name)
    else:  # a choice of the group: all that it sets
        for each in sorted(ours.keys() | theirs.keys()):
            yield f"{part}.{each}", ours.get(each), theirs.get(each)


def _short(value: Any) -> Any:
    """A part by the name of its choice, which is its first field."""
    return next(iter(value.values()), None) if isinstance(value, dict) else value


def _written(value: Any) -> str:
    """As it is typed on a command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
