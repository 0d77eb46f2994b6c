"""Divisions: sets of rules for comparable runs, read from a YAML file, with the role of each option without a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec

from aiperf import bounded_yaml
from aiperf.errors import AiperfError
from aiperf.files import given_path, what_is_wrong_with
from aiperf.given_file import read_text
from aiperf.nearest import nearest
from aiperf.ranking.candidate import FACTS, IMAGES
from aiperf.ranking.law import AllOf, AtMost, AtMostOption, Has, Law, NoLaw, fits, law_of
from aiperf.ranking.levels import DIVISION
from aiperf.sanitize import identity

BUILT_IN = ("ranking", "quick", "reference")
Source = Literal["paper", "predecessor", "decided"]


class BadDivision(AiperfError):
    """Invalid division file, or a name that is no division."""


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    text: str
    """The rule as a sentence."""
    source: tuple[Source, ...]
    law: Law
    remedy: str
    """Action or option with which a user keeps the rule."""
    fact: str | None
    option: str | None
    """Exactly one of `fact` and `option` is set."""

    @property
    def about(self) -> str:
        return self.fact or self.option or ""


@dataclass(frozen=True, slots=True)
class Division:
    name: str
    title: str
    rules: tuple[Rule, ...]
    chosen: Mapping[str, str]
    """Required choice by part of the configuration. If a run makes another choice, only the choice is a breach."""
    judged: Mapping[str, str]
    """Options that are checked by a rule about a fact (value of the run), with the rule's id."""
    free: Mapping[str, str]
    """Options, or whole parts of the configuration, without a rule, each with the reason."""

    @property
    def words(self) -> str:
        is_built_in = self.name in BUILT_IN
        return f"division {self.name!r}" if is_built_in else f"rules file {self.name!r}, no division of AIPerf"

    def rule(self, id: str) -> Rule:
        return next(rule for rule in self.rules if rule.id == id)

    def options(self) -> Iterator[str]:
        """Yield the name of every option that has a rule, is checked by a rule about another value, or is free."""
        yield from (rule.option for rule in self.rules if rule.option is not None)
        yield from self.judged
        yield from self.free


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    text: str
    source: list[Source]
    law: Any
    remedy: str
    fact: str | None = None
    option: str | None = None


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    division: str
    title: str
    chosen: dict[str, str]
    rules: list[_Rule]
    judged: dict[str, str]
    free: dict[str, str]


def division(word: str, known_options: Collection[str] | None = None) -> Division:
    """Return a built-in division (one of BUILT_IN), or read one from a YAML file."""
    if word in BUILT_IN:
        return _built_in(word)
    path = given_path(word)
    if (wrong := what_is_wrong_with(path)) is not None:
        raise BadDivision(
            f"--division takes {', '.join(BUILT_IN)} or the path of a YAML file of rules, but found {word!r}"
            + ("" if wrong == "not there" else f", which is {wrong}")
            + nearest(word, BUILT_IN)
        )
    text = read_text(path, "a division is a YAML file", error=BadDivision, largest=bounded_yaml.LARGEST_FILE)
    rules = parsed(text, word, known_options)
    if (name := identity(rules.name)) in (*BUILT_IN, DIVISION):
        raise BadDivision(f"{name!r} names a built-in division. {word!r} needs another name (division: NAME)")
    if "aiperf" in f"{name} {identity(rules.title)}":
        raise BadDivision(
            f"name and title of a rules file do not contain 'AIPerf', but found {rules.name!r} and {rules.title!r} in "
            f"{word!r}: rename them"
        )
    return rules


@cache
def _built_in(name: str) -> Division:
    text = files("aiperf.ranking").joinpath("divisions", f"{name}.yaml").read_text("utf-8")
    return parsed(text, f"{name}.yaml")


def largest_error() -> float:
    """Return the largest error (1 − top-1 accuracy, 0..1) that a run of the ranking may have."""
    law = division("ranking").rule("error").law
    assert isinstance(law, AtMost)
    return law.bound


def parsed(text: str, where: str, known_options: Collection[str] | None = None) -> Division:
    try:
        document = msgspec.convert(bounded_yaml.load(text), _Document)
    except bounded_yaml.BadYaml as error:
        raise BadDivision(f"a division is a YAML file. {where} is not YAML ({error}): correct it") from error
    except msgspec.ValidationError as error:
        raise BadDivision(
            f"a division has {_names(_Document)}, a rule {_names(_Rule)} (fact or option). {where}: {error}. Correct "
            "this key after the example aiperf/ranking/divisions/ranking.yaml"
        ) from error
    rules = Division(
        name=document.division,
        title=document.title,
        rules=tuple(_rule(each, where, known_options) for each in document.rules),
        chosen=document.chosen,
        judged=document.judged,
        free=document.free,
    )
    _check(rules, where, known_options)
    return rules


def _names(of: type[msgspec.Struct]) -> str:
    return ", ".join(of.__struct_fields__)


def _rule(read: _Rule, where: str, known_options: Collection[str] | None) -> Rule:
    at = f"{where}, rule {read.id!r}"
    if (read.fact is None) == (read.option is None):
        raise BadDivision(
            f"a rule has either the key fact or the key option. {at} has {read.fact!r} and {read.option!r}: give one of them"
        )
    for name in ("id", "text", "remedy", "source"):
        if not getattr(read, name):
            raise BadDivision(f"a rule has an id, a text, a source and a remedy. {at} has an empty {name}: fill it in")
    try:
        law = law_of(read.law)
    except NoLaw as error:
        raise BadDivision(f"{at}: {error}") from error
    if read.fact is not None:
        _check_fact(read.fact, law, at)
    for option in (read.option, *_bounds(law)):
        if option is not None and known_options is not None and option not in known_options:
            raise BadDivision(
                f"{at} names an unknown option: {option!r}{nearest(option, known_options)}. "
                "`python -m aiperf help options` lists all"
            )
    return Rule(read.id, read.text, tuple(read.source), law, read.remedy, read.fact, read.option)


def _check_fact(name: str, law: Law, at: str) -> None:
    if name not in FACTS:
        raise BadDivision(f"the key fact takes one of {', '.join(FACTS)}. {at} has {name!r}{nearest(name, FACTS)}")
    if (why := fits(law, FACTS[name].kind)) is not None:
        raise BadDivision(
            f"{at}: the condition {str(law)!r} (key law) can never hold for {name}, {why}: change the condition"
        )
    wrong = [entry for entry, _ in law.values if entry not in IMAGES] if isinstance(law, Has) else []
    if wrong:
        raise BadDivision(
            f"a rule on images takes {', '.join(IMAGES)}. {at} has {wrong[0]!r}{nearest(wrong[0], IMAGES)}"
        )


def _bounds(law: Law) -> Iterator[str]:
    match law:
        case AtMostOption(option):
            yield option
        case AllOf(laws):
            for each in laws:
                yield from _bounds(each)
        case _:
            pass


def _check(division: Division, where: str, known_options: Collection[str] | None) -> None:
    ids = [rule.id for rule in division.rules]
    if not ids:
        raise BadDivision(f"a division has at least one rule, but {where} has none: add a rule")
    twice = [name for name, count in Counter(ids).items() if count > 1]
    if twice:
        raise BadDivision(f"rule ids are unique. {where} has {twice[0]!r} twice: rename one")
    for option, id in division.judged.items():
        if id not in ids:
            raise BadDivision(
                f"the key judged has the id of a rule for each option. {where}: {option} has {id!r}{nearest(id, ids)}: give "
                "the id of a rule in this file"
            )
    options = Counter(division.options())
    both = [name for name, count in options.items() if count > 1]
    if both:
        raise BadDivision(
            f"an option is listed once (in rules, judged or free). {where} has {both[0]!r} twice: remove one"
        )
    unknown = [name for name in options if known_options is not None and name not in known_options]
    if unknown:
        raise BadDivision(
            f"{where} names an unknown option: {unknown[0]!r}{nearest(unknown[0], known_options or ())}. "
            "`python -m aiperf help options` lists all"
        )
