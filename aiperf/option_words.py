"""Options and values in the words of a command line. Unknown names are refused before the configuration is composed.

A text or a path is read as the shell passes it: `runs=/data/a (1), b=c` names that folder. Two forms have a meaning: `null` is
None, and quotes around a whole value are removed. `./` before a path avoids both. Hydra's parser reads all other values.
`aiperf.config` checks types and ranges.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiperf.errors import BadConfiguration
from aiperf.files import given_path
from aiperf.nearest import nearest, nearest_option
from aiperf.option_limits import limits_of

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

HERE = frozenset(
    {
        "announcement_log",
        "cluster.hostfile",
        "cluster.profile",
        "follow",
        "resume",
        "runs",
        "start",
        "system.file",
    }
)
"""Paths on the machine of the command. Shells do not expand `~` after an equals sign, so it is expanded here."""
PATHS = HERE | {
    "cluster.data_path",
    "cluster.directory",
    "cluster.python",
    "cluster.runs_path",
    "dataset.index",
    "dataset.root",
    "storage.journal",
}
"""All paths, including those on other machines, where `~` may differ."""
OF_A_RECORD = re.compile(r"(?P<option>.+)\.(?P<index>\d+)\.(?P<name>\w+)")
"""Name of one field of one record of a list: cluster.faults.0.rate."""
_NAME = re.compile(r"\w+(\.\w+)*")


@dataclass(frozen=True, slots=True)
class Options:
    """Names that a command line may use."""

    names: tuple[str, ...]
    """Every option, whatever the choices: 'seed', 'schedule.duration_seconds', …"""
    choices: Mapping[str, tuple[str, ...]]
    """Choices of each group."""
    absent: frozenset[str]
    """Groups without a default choice: '+cluster=…'."""
    set_by_choice: frozenset[str]
    """Options that a choice sets to its own name: 'searcher.name'."""
    records: Mapping[str, Mapping[str, type[Any]]]
    """Classes of the records of options that are lists of records, by kind; a single class has the kind ''."""
    texts: frozenset[str]
    """Options whose value is one text."""

    @property
    def known(self) -> tuple[str, ...]:
        """All names that may precede an equals sign, sorted."""
        return tuple(sorted({*self.names, *self.choices}))


@dataclass(frozen=True, slots=True)
class CommandWord:
    """One word of a command line."""

    typed: str
    values: Mapping[str, Any]
    """Values by option: one, or several for a whole part, budget={factor: 3}."""
    is_choice: bool
    """True if the word chooses from a group."""


def read(words: Sequence[str], options: Options) -> list[CommandWord]:
    """Return the words with their values.

    Raises:
        BadConfiguration: a word names no option, or an option twice. The message names the nearest valid one.
    """
    keys = [word.lstrip("+~").partition("=")[0] for word in words]
    found: list[CommandWord] = []
    set_by: dict[str, str] = {}
    for word, key in zip(words, keys, strict=True):
        if "=" not in word and not word.startswith("~"):
            near = f" (did you mean '{key}=…'?)" if key in options.known else nearest_option(key, options.known)
            raise BadConfiguration(f"an option is written key=value; found {word!r}{near}")
        for group in options.absent:
            if key == group and not word.startswith("+"):
                raise BadConfiguration(f"no {group} is named unless one is added: +{word.lstrip('~')}")
            if key.startswith(f"{group}.") and group not in keys:
                raise BadConfiguration(
                    f"{word} is about a {group}, and none is named: add +{group}={'|'.join(options.choices[group])}"
                )
        if _NAME.fullmatch(key):  # before Hydra's parser is loaded, which takes a while
            _check_name(key, options)
        one = _text(word, key, options) or _parsed(word, options)
        for name in one.values:
            if name in set_by:
                raise BadConfiguration(
                    f"an option is given once; {name} is given twice, by {set_by[name]} and by {word}: leave one out"
                )
            set_by[name] = word
        found.append(one)
    return found


def _text(word: str, key: str, options: Options) -> CommandWord | None:
    """Return a word whose option takes one text; None for another word."""
    value = word.partition("=")[2]
    if key not in options.texts or not word.startswith(f"{key}="):
        return None
    if value == "null":
        return CommandWord(word, {key: None}, is_choice=False)
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    elif not value and key in PATHS:
        raise BadConfiguration(f"{key} is a path; found nothing after the equals sign of {word!r}")
    elif key in HERE:
        value = str(given_path(value))
    return CommandWord(word, {key: value}, is_choice=False)


def _parsed(word: str, options: Options) -> CommandWord:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType
    from hydra.errors import OverrideParseException

    try:
        (override,) = OverridesParser.create().parse_overrides([word])
    except OverrideParseException as error:
        raise BadConfiguration(
            f'a value with spaces, quotes or brackets is written within quotes, KEY="VALUE"; found {word!r}'
        ) from error
    key = override.get_key_element().lstrip("+~")
    if override.type is OverrideType.DEL:
        raise BadConfiguration(f"nothing is taken out of a configuration; leave {word!r} out, or give {key} a value")
    values = dict(_values(key, override, options))
    for name in values:
        _check_name(name, options, is_part_taken=False)
    right = f"+{word.lstrip('+')}" if key in options.absent else word.lstrip("+")
    if word != right:
        plus = "one plus" if key in options.absent else "no plus"
        raise BadConfiguration(f"{key} is written with {plus}; found {word!r}: write {right}")
    if override.is_sweep_override():
        raise BadConfiguration(f"an option has one value; found {word!r}")
    if key in options.choices and override.value() not in options.choices[key]:
        value, listed = word.partition("=")[2], options.choices[key]
        raise BadConfiguration(f"{key}={value}: {key} is one of {', '.join(listed)}{nearest(value, listed)}")
    return CommandWord(word, values, is_choice=key in options.choices)


def _values(key: str, override: Override, options: Options) -> Iterator[tuple[str, Any]]:
    value = override.value()
    is_part = key not in options.known and any(name.startswith(f"{key}.") for name in options.names)
    if is_part and isinstance(value, dict):
        yield from ((f"{key}.{name}", each) for name, each in value.items())
    else:
        yield key, value


def _check_name(name: str, options: Options, *, is_part_taken: bool = True) -> None:
    """Raise BadConfiguration for a name of no option and of no field of a record. `is_part_taken`: accept a whole part."""
    of_record = OF_A_RECORD.fullmatch(name)
    if of_record is not None and of_record["option"] in options.records:
        _check_field(of_record["name"], of_record["option"], options.records[of_record["option"]])
        return
    if is_part_taken and any(each.startswith(f"{name}.") for each in options.names):
        return
    if name not in options.known:
        raise BadConfiguration(
            f"there is no option {name!r}{nearest_option(name, options.known)}. `python -m aiperf help options` lists them"
        )
    if name in options.set_by_choice:
        group, _, _ = name.partition(".")
        raise BadConfiguration(f"{name} is set by the choice: {group} is one of {', '.join(options.choices[group])}")


def form_of(kinds: Mapping[str, type[Any]]) -> str:
    """Return the form of a record of a list for a person: '{kind: KIND, …}'."""
    if "" in kinds:
        return f"{{{', '.join(f'{name}: …' for name in limits_of(kinds['']))}}}"
    return "{kind: KIND, …}"


def check_record(record: Any, option: str, index: int, kinds: Mapping[str, type[Any]]) -> None:
    """Raise BadConfiguration for a record that is none of those of the option's list."""
    if not isinstance(record, dict):
        near = f" (did you mean {{kind: {record}}}?)" if record in kinds else ""
        raise BadConfiguration(f"{option} is a list of records {form_of(kinds)}; found {record!r}{near}")
    kind = "" if "" in kinds else record.get("kind")
    if kind is None:
        found = ", ".join(f"{name}: {value}" for name, value in record.items())
        raise BadConfiguration(
            f"a record of {option} says its kind, {form_of(kinds)}; found {{{found}}}. There are {', '.join(kinds)}"
        )
    if kind not in kinds:
        raise BadConfiguration(
            f"{option}: there is no kind {kind!r}{nearest(str(kind), kinds)}; there are {', '.join(kinds)}"
        )
    for name, value in record.items():
        if name != "kind":
            _check_field(str(name), option, {kind: kinds[kind]})
            limits_of(kinds[kind])[str(name)].check_type(f"{option}.{index}.{name}", value, str(value))


def _check_field(name: str, option: str, kinds: Mapping[str, type[Any]]) -> None:
    known = sorted({each for schema in kinds.values() for each in limits_of(schema)} - {"kind"})
    if name not in known:
        (kind, *others) = kinds
        whose = f"{kind} of {option}" if kind and not others else f"a record of {option}"
        raise BadConfiguration(
            f"{whose} has no field {name!r}{nearest(name, known)}; it has {', '.join(known) or 'none'}"
        )
