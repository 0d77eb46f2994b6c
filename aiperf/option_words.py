"""Whether the words of a command line name options that there are: checked before Hydra composes anything from them.

A function of values: what options and choices there are is handed in. Hydra's own parser reads the words, so that one grammar
holds; whether a value fits its option is for the composition to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiperf.errors import BadConfiguration
from aiperf.nearest import nearest, nearest_option
from aiperf.option_paths import path_of
from aiperf.option_records import Records, check_field, check_record

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

_OF_A_RECORD = re.compile(r"(?P<option>.+)\.(?P<index>\d+)\.(?P<name>\w+)")
"""What names one field of one record of a list: cluster.faults.0.rate."""
_NAME = re.compile(r"\w+(\.\w+)*")
"""What may stand before an equals sign."""


@dataclass(frozen=True, slots=True)
class Options:
    """What can be said."""

    names: tuple[str, ...]
    """Every option, whatever the choices: 'seed', 'schedule.duration_seconds', …"""
    choices: Mapping[str, tuple[str, ...]]
    """Of each group."""
    absent: frozenset[str]
    """Groups of which nothing is chosen unless it is added: '+cluster=…'."""
    set_by_choice: frozenset[str]
    """Names that a choice gives to itself, as the journal holds them: 'searcher.name'."""
    records: Mapping[str, Records]
    """Of the options that are lists of records."""

    @property
    def known(self) -> tuple[str, ...]:
        """Whatever may stand before an equals sign, in order."""
        return tuple(sorted({*self.names, *self.choices}))


def check(words: Sequence[str], options: Options) -> None:
    """Raises BadConfiguration for the first word that says nothing there is; the message names the nearest right one."""
    keys = [word.lstrip("+~").partition("=")[0] for word in words]
    said: dict[str, str] = {}
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
        if _NAME.fullmatch(key):  # refused at once, where there is no such option: Hydra's parser takes a while to load
            _check_name(key, options)
        override = _parsed(word)
        _check_word(word, override, options)
        for name, _ in _named(key, override, options):
            if name in said:
                raise BadConfiguration(
                    f"an option is given once; {name} is given twice, by {said[name]} and by {word}: leave one out"
                )
            said[name] = word


def fields_of_records(words: Sequence[str]) -> dict[str, tuple[str, int, str, object]]:
    """The words that each set one field of one record of a list, with option, index, field and value: they can be carried
    out when the records are made, and not by Hydra, which does not know which fields a record has."""
    found: dict[str, tuple[str, int, str, object]] = {}
    for word in words:
        matched = _OF_A_RECORD.fullmatch(word.partition("=")[0])
        if matched is not None:
            found[word] = (matched["option"], int(matched["index"]), matched["name"], _parsed(word).value())
    return found


def _parsed(word: str) -> Override:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    path = path_of(word)
    try:
        (override,) = OverridesParser.create().parse_overrides([word if path is None else path.for_hydra])
    except OverrideParseException as error:
        raise BadConfiguration(
            f"an option is written key=value, and a value with spaces, quotes or brackets within quotes; found {word!r}"
        ) from error
    return override


def _check_word(word: str, override: Override, options: Options) -> None:
    from hydra.core.override_parser.types import OverrideType

    key = override.get_key_element().lstrip("+~")
    for name, value in _named(key, override, options):
        _check_name(name, options, is_part_taken=False)
        if name in options.records and isinstance(value, list):
            for each in value:
                check_record(each, name, options.records[name])
    if _deletes(override):
        raise BadConfiguration(f"nothing is taken out of a configuration; leave {word!r} out, or give {key} a value")
    needed = OverrideType.ADD if key in options.absent else OverrideType.CHANGE
    if override.type is not needed:
        plus = "one plus" if needed is OverrideType.ADD else "no plus"
        right = word.lstrip("+") if needed is OverrideType.CHANGE else f"+{word.lstrip('+')}"
        raise BadConfiguration(f"{key} is said with {plus}; found {word!r}: write {right}")
    if override.is_sweep_override():
        raise BadConfiguration(f"an option has one value; found {word!r}")
    if key in options.choices and override.value() not in options.choices[key]:
        value = word.partition("=")[2]
        raise BadConfiguration(
            f"{key}={value}: {key} is one of {_listed(options.choices[key])}{nearest(value, options.choices[key])}"
        )


def _check_name(name: str, options: Options, *, is_part_taken: bool = True) -> None:
    """Raises BadConfiguration where it names no option and no field of a record; a whole part may be taken: {factor: 3}."""
    of_record = _OF_A_RECORD.fullmatch(name)
    if of_record is not None and of_record["option"] in options.records:
        check_field(of_record["name"], of_record["option"], options.records[of_record["option"]])
        return
    if is_part_taken and any(each.startswith(f"{name}.") for each in options.names):
        return
    if name not in options.known:
        raise BadConfiguration(
            f"there is no option {name!r}{nearest_option(name, options.known)}. `python -m aiperf --help` lists them"
        )
    if name in options.set_by_choice:
        group, _, _ = name.partition(".")
        raise BadConfiguration(f"{name} is set by the choice: {group} is one of {_listed(options.choices[group])}")


def _named(key: str, override: Override, options: Options) -> Iterator[tuple[str, object]]:
    """The options that a word names, with their values: its key, or those of a whole part written as {factor: 3}."""
    value = None if _deletes(override) else override.value()
    is_part = any(name.startswith(f"{key}.") for name in options.names) and key not in options.known
    if is_part and isinstance(value, dict):
        yield from ((f"{key}.{name}", each) for name, each in value.items())
    else:
        yield key, value


def _deletes(override: Override) -> bool:
    from hydra.core.override_parser.types import OverrideType

    return override.type is OverrideType.DEL


def _listed(choices: Sequence[str]) -> str:
    return ", ".join(choices)
