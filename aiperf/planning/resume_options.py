"""Comparison of options given for a resumed run with the options in its journal.

A requeued batch job repeats its submitted command, so equal options are accepted. A run keeps its first configuration.
Different options would have no effect and are rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aiperf.config import RunConf, as_plain
from aiperf.errors import BadConfiguration


def require_same(words: Sequence[str], given: RunConf, held: RunConf, run: str) -> None:
    """Check the options of a resumed run.

    Args:
        words: arguments as typed.
        given: configuration made of them.
        held: configuration in the run's journal.

    Raises:
        BadConfiguration: an argument differs from the journal. The message names all differences.
    """
    differing = list(differences(words, as_plain(given), as_plain(held)))
    if differing:
        raise BadConfiguration(
            f"a run keeps the configuration it began with. '{run}' has {'; '.join(differing)}: leave these options out, or "
            "begin another run in a new folder"
        )


def differences(words: Sequence[str], given: dict[str, Any], held: dict[str, Any]) -> Iterator[str]:
    """Yield a text for each typed option that differs between the configurations."""
    reported: set[str] = set()
    for word in words:
        part, _, name = word.lstrip("+~").partition("=")[0].partition(".")
        name = name.partition(".")[0]  # a field of a record in a list: compare the whole list
        for option, ours, theirs in _compared(part, name, given, held):
            if ours != theirs and option not in reported:
                reported.add(option)
                yield f"{option}={_written(theirs)}, not {_written(ours)}"


def _compared(part: str, name: str, given: dict[str, Any], held: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    ours, theirs = given.get(part), held.get(part)
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        yield part, _short(ours), _short(theirs)
    elif name:
        yield f"{part}.{name}", ours.get(name), theirs.get(name)
    else:  # a choice of the group: compare all its options
        for each in sorted(ours.keys() | theirs.keys()):
            yield f"{part}.{each}", ours.get(each), theirs.get(each)


def _short(value: Any) -> Any:
    """Return a group by the name of its choice, which is its first field."""
    return next(iter(value.values()), None) if isinstance(value, dict) else value


def _written(value: Any) -> str:
    """Return a value as it is typed on a command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
