"""The file of a site: options for all runs there, as words below those of the command line (docs/clusters.md)."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiperf.config import GROUPS, composed, configuration_folder, limits_for, option_names, parsed_alone, with_implied
from aiperf.errors import BadConfiguration
from aiperf.files import given_path, shown
from aiperf.given_file import fault_of, read_yaml
from aiperf.journal.options import OF_ONE_RUN
from aiperf.mistyped import short
from aiperf.nearest import nearest_option
from aiperf.sanitize import sanitize

VARIABLE = "AIPERF_SITE"
"""Environment variable that names the file. Empty: there is none."""
PLACE = Path("conf", "site.yaml")
"""The file of the working folder. Else that of the installation's configuration is read."""
_RULE = "a site's file sets options of a run (cluster: {partition: gpu})"
_OF_ONE_RUN = OF_ONE_RUN - {"name", "runs"}


@dataclass(frozen=True, slots=True)
class Site:
    """Words of a command line, and what the site's file adds to them."""

    words: list[str]
    """All words OPTION=VALUE of the run."""
    own: tuple[str, ...] = ()
    """Those that come from the file."""
    path: Path | None = None
    unused: tuple[str, ...] = ()
    """Options in the file that the command line sets or that go with other choices."""

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Lines for the plan."""
        if self.path is None:
            return []
        lines = [("site", f"{', '.join(self.own) or 'nothing'}: from {shown(self.path)}")]
        return [*lines, ("", f"not used: {', '.join(self.unused)}")] if self.unused else lines

    def print(self) -> None:
        """Print the lines on standard error."""
        for name, line in self.lines:
            print(sanitize(f"{name}{': ' if name else ''}{line}"), file=sys.stderr)


def with_site(words: Sequence[str], taken: Sequence[str] = ()) -> Site:
    """Return the words with those of the site's file. `taken`: further options and groups that the command line sets."""
    named = os.environ.get(VARIABLE)
    places = (PLACE, configuration_folder() / PLACE.name) if named is None else (given_path(named),) if named else ()
    path = next((each for each in places if named or os.path.lexists(each)), None)
    if path is None:
        return Site([*words])
    site, given = _read(path), with_implied(words)
    settled = {each.option for each in given}
    if settled & {"resume", "announcement"}:  # the other options are recorded
        used = {"runs"} - settled
    else:
        plain = composed(given)
        used = {each for each in site.keys() - settled - {*taken} if _is_of(each, plain, taken)}
    own = tuple(word for option, word in site.items() if option in used)
    return Site([*words, *own], own, path, tuple(option for option in site if option not in used))


def words_with_site(words: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """Return the words with those of the site's file, which are printed."""
    site = with_site(words, taken)
    site.print()
    return site.words


def _is_of(option: str, plain: Mapping[str, Any], taken: Sequence[str]) -> bool:
    part, _, name = option.rpartition(".")
    return part not in taken and name in ((plain.get(part) or {}) if part else plain)


def _read(path: Path) -> dict[str, str]:
    """Return the word OPTION=VALUE of each option in the file."""
    form: Any = dict[str, Any] | None
    content = read_yaml(path, _RULE, form, f"name such a file, or unset {VARIABLE}") or {}
    words: dict[str, str] = {}
    for option, value in _flat(content):
        wrong, fix = _wrong(option, value)
        if option in words:
            wrong, fix = f"sets {option} twice", "leave one out"
        if wrong:
            raise fault_of(path, _RULE, fix)(wrong)
        limits = limits_for(option)
        try:
            if limits and not any(each.accepts(value) for each in limits):
                limits[0].check_type(option, value, short(value))
                limits[0].require(option, value)
            words[option] = f"{option}={_text(option, value)}"
            parsed_alone(words[option])
        except BadConfiguration as error:
            is_number = type(value) is int and any(str in each.types for each in limits)
            hint = ". A text of digits is written in quotes" if is_number else ""
            raise BadConfiguration(f"{shown(path)}: {error}{hint}") from error
    return words


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    known = option_names()
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and (name in GROUPS or name not in known):
            yield from _flat(value, f"{name}.")
        elif value is not None or not any(each.startswith(f"{name}.") for each in known):
            yield name, value


def _wrong(option: str, value: Any) -> tuple[str, str]:
    if option in GROUPS:
        return f"chooses {option}", f"choose it on the command line ({option}={value})"
    if option in _OF_ONE_RUN:
        return f"sets {option}, which is for one run", "give it on the command line"
    if not limits_for(option) and option not in option_names():
        hint = nearest_option(option, option_names())
        return f"has the key {option!r}{hint}", "`python -m aiperf help options` lists the options"
    return "", ""


def _text(option: str, value: Any) -> str:
    match value:
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case list():
            return f"[{','.join(_text('', each) for each in value)}]"
        case dict():
            return f"{{{','.join(f'{name}:' + _text('', each) for name, each in value.items())}}}"
        case str() if option and all(each.types == (str,) for each in limits_for(option)):
            is_plain = value != "null" and not (len(value) > 1 and value[0] == value[-1] and value[0] in "'\"")
            return value if is_plain else f"'{value}'"
        case str():  # a backslash escapes only a quote, and another before a quote
            escaped = re.sub(r'(\\*)("|\Z)', lambda found: found[1] * 2 + found[2].replace('"', '\\"'), value)
            return f'"{escaped}"'
        case _:
            return str(value)
