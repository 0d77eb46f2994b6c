"""Parser of the words OPTION=VALUE of a command line. Unknown names are refused before the configuration is composed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiperf.errors import BadConfiguration
from aiperf.files import escaped, given_path
from aiperf.nearest import nearest, nearest_option
from aiperf.option_limits import limits_of

HERE = frozenset(("announcement_log", "predict", "cluster.profile", "follow", "resume", "runs", "start", "system.file"))
"""Paths on the machine of the command. Shells do not expand `~` after an equals sign, so it is expanded here. Paths on other
machines, where `~` may differ, are not changed."""


@dataclass(frozen=True, slots=True)
class Options:
    """Names of options and groups that a command line may use."""

    names: tuple[str, ...]
    """All options and groups, sorted: 'dataset', 'schedule.duration_seconds', 'seed', …"""
    choices: Mapping[str, tuple[str, ...]]
    """Choices of each group."""
    absent: frozenset[str]
    """Groups without a default choice: '+cluster=…'."""
    set_by_choice: frozenset[str]
    texts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Override:
    text: str
    """The word as the user wrote it."""
    option: str
    """Option or group before the equals sign."""
    value: Any


def read(words: Sequence[str], options: Options) -> list[Override]:
    """Parse the words OPTION=VALUE of a command line, in their order. Types and ranges of the values are not checked."""
    names = [word.lstrip("+~").partition("=")[0] for word in words]
    for word, name in zip(words, names, strict=True):
        _check_name(word, name, names, options)
    for name in names:
        same = [word for word, other in zip(words, names, strict=True) if other == name]
        if len(same) > 1:
            raise BadConfiguration(
                f"each option must be given once, but {name} is given by {' and by '.join(same)}: leave one out"
            )
    return [_override(word, name, options) for word, name in zip(words, names, strict=True)]


def _check_name(word: str, name: str, names: Sequence[str], options: Options) -> None:
    """Raise BadConfiguration for a word that sets no option. This check does not load Hydra's parser, which is slow."""
    if (printable := escaped(word)) != word:
        raise BadConfiguration(
            "options are recorded and sent to other hosts, and must therefore be UTF-8, but found "
            f"'{printable}': rename the folder, or make a link to it with another name (ln -s)"
        )
    if word.startswith("~"):
        raise BadConfiguration(f"an option cannot be removed: leave {word!r} out, or give {name} a value")
    if "=" not in word:
        hint = f" (did you mean '{name}=…'?)" if name in options.names else nearest_option(name, options.names)
        raise BadConfiguration(
            f"an option is written key=value, but found {word!r}{hint}. `python -m aiperf help options` lists them"
        )
    for group in options.absent - set(names):
        if name.startswith(f"{group}."):
            listed = "|".join(options.choices[group])
            raise BadConfiguration(f"{word} is an option of a {group}, but none is chosen: add +{group}={listed}")
    if name not in options.names:
        hint = nearest_option(name, options.names)
        raise BadConfiguration(f"there is no option {name!r}{hint}. `python -m aiperf help options` lists them")
    if name in options.set_by_choice:
        group, _, _ = name.partition(".")
        raise BadConfiguration(f"{name} is set by the choice: {group} is one of {', '.join(options.choices[group])}")
    plus = "+" if name in options.absent else ""
    if not word.startswith(f"{plus}{name}="):
        raise BadConfiguration(
            f"{name} is written with {'one' if plus else 'no'} plus: write {plus}{word.lstrip('+')}, not {word!r}"
        )


def _override(word: str, name: str, options: Options) -> Override:
    text = word.partition("=")[2]
    if name not in options.texts:
        value = _parsed(word)
        if name in options.choices and value not in options.choices[name]:
            choices = options.choices[name]
            raise BadConfiguration(f"{name}={text}: {name} is one of {', '.join(choices)}{nearest(text, choices)}")
        return Override(word, name, value)
    if text == "null":
        return Override(word, name, None)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return Override(word, name, text[1:-1])
    if not text:
        raise BadConfiguration(f"{name} is a text, but {word!r} has nothing after the equals sign: give one, or null")
    return Override(word, name, str(given_path(text)) if name in HERE else text)


def _parsed(word: str) -> Any:
    """Return the value that Hydra's parser reads."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    try:
        (override,) = OverridesParser.create().parse_overrides([word])
    except OverrideParseException as error:
        raise BadConfiguration(
            f'a value with spaces, quotes or brackets is written within quotes, KEY="VALUE", but found {word!r}'
        ) from error
    if override.is_sweep_override():
        raise BadConfiguration(
            f"an option has one value, but found {word!r}: start one run for each value, or use `python -m aiperf sweep`"
        )
    return override.value()


def check_records(word: Override, kinds: Mapping[str, type[Any]]) -> None:
    """Check that the value of an option is a list of records {FIELD: VALUE, …} with known fields of the right type."""
    form = "{kind: KIND, …}"
    if "" in kinds:
        form = f"{{{', '.join(f'{name}: …' for name in limits_of(kinds['']))}}}"
    if not isinstance(word.value, list):
        raise BadConfiguration(f"{word.option} is a list of records {form}, but found {word.text}: give such a list")
    for index, record in enumerate(word.value):
        if not isinstance(record, dict):
            hint = f" (did you mean {{kind: {record}}}?)" if record in kinds else ""
            raise BadConfiguration(f"{word.option} is a list of records {form}, but found {record!r}{hint}")
        kind = "" if "" in kinds else str(record.get("kind"))
        if kind not in kinds:
            hint = nearest(kind, kinds)
            raise BadConfiguration(
                f"{word.option}.{index}: the kind of a record is one of {', '.join(kinds)}, but found {kind}{hint}"
            )
        limits = {name: each for name, each in limits_of(kinds[kind]).items() if name != "kind"}
        for name, value in record.items():
            if name == "kind" and kind:
                continue
            if name not in limits:
                owner = f"{kind} of {word.option}" if kind else f"a record of {word.option}"
                raise BadConfiguration(
                    f"{owner} has no field {name!r}{nearest(str(name), limits)}. Its fields: {', '.join(limits) or 'none'}"
                )
            limits[name].check_type(f"{word.option}.{index}.{name}", value, str(value))
