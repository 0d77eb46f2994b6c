"""Parser of the words OPTION=VALUE of a command line. Unknown names are refused before the configuration is composed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiperf.errors import BadConfiguration
from aiperf.files import LONGEST_SHOWN, escaped, given_path, require_path
from aiperf.mistyped import as_list, as_number, as_truth, entries, short, what_is_wrong
from aiperf.nearest import nearest, nearest_option
from aiperf.option_limits import FieldLimits, limits_of

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
    limits: Mapping[str, FieldLimits]
    """Type and range of each option, except of lists of records."""


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
        value = _parsed(word, name, options.limits.get(name))
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
    if name in HERE:
        return Override(word, name, str(given_path(text)))
    if name == "dataset.root":
        require_path(text, name)
    return Override(word, name, text)


def _parsed(word: str, name: str, limits: FieldLimits | None) -> Any:
    """Return the value that Hydra's parser reads. Numbers in a list of texts are texts: cluster.ssh=[-p,2222]."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    text = word.partition("=")[2]
    try:
        (override,) = OverridesParser.create().parse_overrides([word])
    except (OverrideParseException, ValueError) as error:  # ValueError: Python converts no number of 4301 digits
        hint = _hint(name, text, limits)
        wrong = f": {hint}" if hint else f", {what_is_wrong(text)}"
        raise BadConfiguration(
            f'a value is written KEY=VALUE, or KEY="VALUE", but found {short(word)}{wrong}'
        ) from error
    if override.is_sweep_override():
        hint = _hint(name, text, limits)
        each = "use `python -m aiperf sweep` for one run with each value"
        more = hint if limits is not None and limits.of_list and hint else f"{hint}, or {each}" if hint else each
        raise BadConfiguration(f"an option has one value, but found {short(word)}: {more}")
    value = override.value()
    is_texts = limits is not None and limits.of_list and limits.types == (str,)
    if is_texts and isinstance(value, list) and not all(isinstance(each, str) for each in value):
        plain = entries(text)
        if len(plain) == len(value) and not any(isinstance(each, list | dict) for each in value):
            return plain
    if limits is not None and (hint := _hint(name, text, limits)):
        try:
            limits.check_type(name, value, text)
        except BadConfiguration as error:
            raise BadConfiguration(f"{name} is {limits.kind}, but found {short(word)}: {hint}") from error
    return value


def _hint(name: str, text: str, limits: FieldLimits | None) -> str:
    """Return 'write NAME=VALUE' with the value that was probably meant. '' if there is none."""
    if limits is None or not text.strip("[](){}, "):
        return ""
    if limits.of_list:
        if limits.is_number and not all(re.fullmatch(r"[\d.]+", each, re.ASCII) for each in entries(text)):
            return ""
        return f"write {as_list(name, text)}" if len(text) <= LONGEST_SHOWN else ""
    value = None
    if bool in limits.types:
        value = as_truth(text)
    elif limits.is_number:
        value = as_number(name, text, is_whole=float not in limits.types)
    return f"write {name}={value}" if value is not None and value != text else ""


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
