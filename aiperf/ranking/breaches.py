"""A run held to a division: every rule with what came of it, and every breach at once.

A run that breaks a rule still gets its figures; they are headed by these. A rule of which it cannot be determined is no pass. A
simulated run is never valid; it is told besides which rules its configuration would break on a real machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from aiperf.accounting.windows import Window
from aiperf.ranking.candidate import FACTS, Candidate, chosen, value_of, why_missing
from aiperf.ranking.division import Division, Rule, Source, division
from aiperf.ranking.law import Has, Law, written

REAL_MACHINE = "real-machine"
"""The rule that every simulated run breaks."""
Outcome = Literal["kept", "broken", "unknown", "not looked at"]
"""'not looked at': an option of a choice that is another, or what a simulated run invents."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One rule, what was found, and what would fix it."""

    rule: str
    """As a sentence."""
    found: str
    remedy: str
    is_unknown: bool = False
    """Whether it cannot be determined if the rule is kept. That is no pass: it keeps a run out as well."""
    option: str | None = None
    """The option that the rule is about, where it is about one."""
    id: str = ""
    """The rule's."""
    source: tuple[Source, ...] = ()
    line: int | None = None
    """Of the journal, that shows what was found. None: it follows from the whole of it."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rule, and what came of it."""

    rule: Rule
    outcome: Outcome
    breach: Breach | None = None


def breaches(run: Candidate, held_to: Division | None = None) -> tuple[Breach, ...]:
    """Every rule that the run breaks, or of which it cannot be determined; empty: nothing in this journal keeps it out.

    `held_to`: the ranking, where none is named.
    """
    judged = judgements(run, held_to or division("ranking"))
    return tuple(each.breach for each in judged if each.breach is not None)


def judgements(run: Candidate, held_to: Division) -> tuple[Judgement, ...]:
    """What came of every rule, in the division's order.

    Of a simulated run, what a real run of its configuration and declared length would break as well. No rule looks at its
    precision, error and speed, which are invented.
    """
    if run.is_simulated:
        run = replace(run, window_seconds=Window(run.warmup_seconds, run.duration_seconds).seconds)
    told = options(run.config)
    # A configuration that does not say what was chosen is a rule of its own that cannot be determined.
    others = {part for part, name in held_to.chosen.items() if chosen(run.config, part) not in (None, name)}
    return tuple(_judged(rule, run, told, others) for rule in held_to.rules)


def _judged(rule: Rule, run: Candidate, told: Mapping[str, Any], others: set[str]) -> Judgement:
    if rule.option is not None:
        if rule.option.partition(".")[0] in others:
            return Judgement(rule, "not looked at")
        return _of_option(rule, told)
    assert rule.fact is not None, "a rule is about a fact or an option"
    if run.is_simulated and FACTS[rule.fact].of_result:
        return Judgement(rule, "not looked at")
    return _of_fact(rule, rule.fact, run, told)


def _of_option(rule: Rule, told: Mapping[str, Any]) -> Judgement:
    assert rule.option is not None
    if rule.option not in told:
        return _outcome(rule, "unknown", "this journal does not say", line=1, remedy="a run of this release")
    if rule.law.holds(told[rule.option], told):
        return Judgement(rule, "kept")
    return _outcome(rule, "broken", f"{rule.option}={written(told[rule.option])}", line=1)


def _of_fact(rule: Rule, name: str, run: Candidate, told: Mapping[str, Any]) -> Judgement:
    value = value_of(run, name)
    line = _line(rule.law, run, name, value)
    if value is None:
        if FACTS[name].is_breach_if_missing:
            return _outcome(rule, "broken", FACTS[name].told(run), line)
        return _outcome(rule, "unknown", why_missing(run, name), line)
    if isinstance(rule.law, Has):
        return _of_table(rule, rule.law, value, FACTS[name].told(run), line)
    if rule.law.holds(value, told):
        return Judgement(rule, "kept")
    return _outcome(rule, "broken", FACTS[name].told(run), line)


def _line(law: Law, run: Candidate, name: str, value: Any) -> int | None:
    """The journal's line that shows a fact; of several values the first that shows one which the law does not allow."""
    if not isinstance(value, frozenset):
        return run.lines.get((name, ""))
    wrong = [
        run.lines[name, each] for each in value if (name, each) in run.lines and not law.holds(frozenset({each}), {})
    ]
    return min(wrong, default=run.lines.get((name, "")))


def _of_table(rule: Rule, law: Has, value: Mapping[str, Any], named: str, line: int | None) -> Judgement:
    missing = [entry for entry, _ in law.values if entry not in value]
    if missing:
        return _outcome(rule, "unknown", f"the journal does not tell of: {', '.join(missing)}", line)
    if law.holds(value, {}):
        return Judgement(rule, "kept")
    differing = [f"{entry} {written(value[entry])}" for entry, right in law.values if value[entry] != right]
    return _outcome(rule, "broken", f"{named} ({', '.join(differing)})", line)


def _outcome(
    rule: Rule, outcome: Literal["broken", "unknown"], found: str, line: int | None, remedy: str | None = None
) -> Judgement:
    is_unknown = outcome == "unknown"
    breach = Breach(
        rule=rule.text,
        found=f"unknown: {found}" if is_unknown else found,
        remedy=remedy or rule.remedy,
        is_unknown=is_unknown,
        option=rule.option,
        id=rule.id,
        source=rule.source,
        line=line,
    )
    return Judgement(rule, outcome, breach)


def options(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A configuration by dotted names: {'schedule': {'patience': 6}} has 'schedule.patience'."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            flat |= options(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
