"""A division: the rules that its runs are held to, from a YAML file; and what each other option of a run has to do with them.

Loading is strict. What a file says and nobody would look at is refused: unknown keys and facts, laws that cannot hold of their
fact, rules named twice, keys written twice.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import msgspec
import yaml

from aiperf.errors import AiperfError
from aiperf.files import given_path, what_is_wrong_with
from aiperf.ranking.candidate import FACTS, IMAGES
from aiperf.ranking.law import AllOf, AtMost, AtMostOption, Has, Law, NoLaw, fits, law_of

BUILT_IN = ("ranking", "quick")
Source = Literal["paper", "predecessor", "decided"]


class BadDivision(AiperfError):
    """A file of rules that cannot be what its author meant."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what it demands of one fact of a run, or of one option of its configuration."""

    id: str
    text: str
    """As a sentence tells it."""
    source: tuple[Source, ...]
    law: Law
    remedy: str
    """What a user writes or does to keep it."""
    fact: str | None
    option: str | None
    """Of these two just one."""

    @property
    def about(self) -> str:
        """The fact's or the option's name."""
        return self.fact or self.option or ""


@dataclass(frozen=True, slots=True)
class Division:
    """Runs that can be compared, since they keep these rules."""

    name: str
    title: str
    rules: tuple[Rule, ...]
    chosen: Mapping[str, str]
    """Parts of the configuration whose options are those of a choice: of another choice, the breach is the choice alone."""
    judged: Mapping[str, str]
    """Options that a rule on a fact looks after: the rule's id."""
    free: Mapping[str, str]
    """Options, or whole parts of the configuration, that may be as they like, each with the reason."""

    def rule(self, id: str) -> Rule:
        """The rule of that name."""
        return next(rule for rule in self.rules if rule.id == id)

    def options(self) -> Iterator[str]:
        """All that it names."""
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
    """The division that a word names: one that is built in, or a file.

    `known_options`: every option that there is, where a file's are to be held to them.

    Raises:
        BadDivision: there is none, or the file does not say one.
    """
    if word in BUILT_IN:
        return _built_in(word)
    path = given_path(word)
    if (wrong := what_is_wrong_with(path)) is not None:
        near = difflib.get_close_matches(word, BUILT_IN, n=1)
        raise BadDivision(
            f"a division is one of {', '.join(BUILT_IN)}, or a YAML file of rules; found {word!r}"
            + ("" if wrong == "not there" else f", which is {wrong}")
            + (f" (did you mean {near[0]!r}?)" if near else "")
        )
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadDivision(f"a division is a YAML file in UTF-8; {word!r} could not be read ({error})") from error
    return parsed(text, word, known_options)


@cache
def _built_in(name: str) -> Division:
    text = files("aiperf.ranking").joinpath("divisions", f"{name}.yaml").read_text("utf-8")
    return parsed(text, f"{name}.yaml")


def largest_error() -> float:
    """The bound that the ranking sets to a run's error."""
    law = division("ranking").rule("error").law
    assert isinstance(law, AtMost)
    return law.bound


def parsed(text: str, where: str, known_options: Collection[str] | None = None) -> Division:
    """The division that a YAML text says; `where` names it in errors.

    Raises:
        BadDivision: it says none.
    """
    try:
        document = msgspec.convert(yaml.load(text, _Loader), _Document)  # a SafeLoader
    except (yaml.YAMLError, RecursionError) as error:
        raise BadDivision(f"a division is YAML; {where} is none ({' '.join(str(error).split())})") from error
    except msgspec.ValidationError as error:
        raise BadDivision(
            f"a division has {_names(_Document)}, a rule {_names(_Rule)} (fact or option); {where}: {error}"
        ) from error
    found = Division(
        name=document.division,
        title=document.title,
        rules=tuple(_rule(each, where, known_options) for each in document.rules),
        chosen=document.chosen,
        judged=document.judged,
        free=document.free,
    )
    _check(found, where, known_options)
    return found


def _names(of: type[msgspec.Struct]) -> str:
    return ", ".join(of.__struct_fields__)


def _rule(told: _Rule, where: str, known_options: Collection[str] | None) -> Rule:
    at = f"{where}, rule {told.id!r}"
    if (told.fact is None) == (told.option is None):
        raise BadDivision(
            f"a rule is about a fact or an option, one of the two; {at} names {told.fact} and {told.option}"
        )
    for name in ("id", "text", "remedy", "source"):
        if not getattr(told, name):
            raise BadDivision(f"a rule says its id, text, source and remedy; {at} leaves {name} empty")
    try:
        law = law_of(told.law)
    except NoLaw as error:
        raise BadDivision(f"{error}; in {at}") from error
    if told.fact is not None:
        _check_fact(told.fact, law, at)
    for option in (told.option, *_bounds(law)):
        if option is not None and known_options is not None and option not in known_options:
            raise BadDivision(f"{at} names an option that there is not: {option!r}{_near(option, known_options)}")
    return Rule(told.id, told.text, tuple(told.source), law, told.remedy, told.fact, told.option)


def _check_fact(name: str, law: Law, at: str) -> None:
    if name not in FACTS:
        raise BadDivision(f"a fact is one of {', '.join(FACTS)}; {at} names {name!r}{_near(name, FACTS)}")
    if (why := fits(law, FACTS[name].kind)) is not None:
        raise BadDivision(f"a law can hold of its fact; {at}: {name} is a {FACTS[name].kind}, {why} ({law})")
    wrong = [entry for entry, _ in law.values if entry not in IMAGES] if isinstance(law, Has) else []
    if wrong:
        raise BadDivision(f"images have {', '.join(IMAGES)}; {at} names {wrong[0]!r}{_near(wrong[0], IMAGES)}")


def _bounds(law: Law) -> Iterator[str]:
    """The options that a law takes its bound from."""
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
    twice = [name for name in ids if ids.count(name) > 1]
    if twice:
        raise BadDivision(f"each rule has an id of its own; {where} has {twice[0]!r} twice")
    for option, id in division.judged.items():
        if id not in ids:
            raise BadDivision(
                f"a judged option names the rule that looks after it; {where}: {option} names {id!r}{_near(id, ids)}"
            )
    options = list(division.options())
    both = [name for name in options if options.count(name) > 1]
    if both:
        raise BadDivision(f"an option has a rule, is judged or is free, one of these; {where} has {both[0]!r} twice")
    unknown = [name for name in options if known_options is not None and name not in known_options]
    if unknown:
        raise BadDivision(
            f"{where} names an option that there is not: {unknown[0]!r}{_near(unknown[0], known_options or ())}"
        )


def _near(word: str, there: Collection[str]) -> str:
    near = difflib.get_close_matches(word, there, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # libyaml's is ten times as fast
    """Whose mappings have each key once: of two the upper one would be lost unseen."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key, (written, _) in zip(keys, node.value, strict=True):
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} stands there twice", written.start_mark)
        made: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return made
