"""Check of a run against a division (set of rules for comparable runs): the outcome of each rule, and all breaches at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from aiperf.accounting.intervals import valid_window
from aiperf.journal.options import flat_options
from aiperf.ranking.candidate import FACTS, Candidate, chosen, value_of, why_missing
from aiperf.ranking.division import Division, Rule, Source, division
from aiperf.ranking.law import Has, Law, written

REAL_MACHINE = "real-machine"
"""The rule that every simulated run breaks."""
Outcome = Literal["kept", "broken", "unknown", "not looked at"]
"""'not looked at': an option of another choice (for example of another data set), or an invented result of a simulated run."""


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A broken rule, the offending value and the fix."""

    rule: str
    found: str
    remedy: str
    is_unknown: bool = False
    """True if the value is unknown. An unknown value is no pass: it keeps a run out too."""
    option: str | None = None
    """Option that the rule is about. None for a rule about another value of the run, such as its error."""
    id: str = ""
    source: tuple[Source, ...] = ()
    line: int | None = None
    """Line of the journal that shows the value. None if it follows from the whole journal."""


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    rule: Rule
    outcome: Outcome
    breach: RuleViolation | None = None


def breaches(run: Candidate, by: Division | None = None) -> tuple[RuleViolation, ...]:
    """Violations and unknown outcomes, in order of the rules. `by`: default is the built-in division 'ranking'."""
    outcomes = judgements(run, by or division("ranking"))
    return tuple(each.breach for each in outcomes if each.breach is not None)


def judgements(run: Candidate, by: Division) -> tuple[RuleOutcome, ...]:
    """Outcome of each rule, in order: kept, broken, unknown or 'not looked at'. A simulation's results are not looked at."""
    if run.is_simulated:
        run = replace(
            run, window_seconds=valid_window(run.warmup_seconds, run.duration_seconds, run.duration_seconds).seconds
        )
    values = flat_options(run.config)
    # A configuration without the choice has an unknown outcome by another rule.
    others = {part for part, name in by.chosen.items() if chosen(run.config, part) not in (None, name)}
    return tuple(_judged(rule, run, values, others) for rule in by.rules)


def _judged(rule: Rule, run: Candidate, values: Mapping[str, Any], others: set[str]) -> RuleOutcome:
    if rule.option is not None:
        if rule.option.partition(".")[0] in others:
            return RuleOutcome(rule, "not looked at")
        return _of_option(rule, values)
    assert rule.fact is not None, "a rule is about a fact or an option"
    if run.is_simulated and FACTS[rule.fact].of_result:
        return RuleOutcome(rule, "not looked at")
    return _of_fact(rule, rule.fact, run, values)


def _of_option(rule: Rule, values: Mapping[str, Any]) -> RuleOutcome:
    assert rule.option is not None
    if rule.option not in values:
        return _outcome(rule, "unknown", "not in this journal", line=1, remedy="start a run of this release")
    if rule.law.holds(values[rule.option], values):
        return RuleOutcome(rule, "kept")
    return _outcome(rule, "broken", f"{rule.option}={written(values[rule.option])}", line=1)


def _of_fact(rule: Rule, name: str, run: Candidate, values: Mapping[str, Any]) -> RuleOutcome:
    value = value_of(run, name)
    line = _line(rule.law, run, name, value)
    if value is None:
        if FACTS[name].is_breach_if_missing:
            return _outcome(rule, "broken", FACTS[name].found(run), line)
        return _outcome(rule, "unknown", why_missing(run, name), line)
    if isinstance(rule.law, Has):
        return _of_table(rule, rule.law, value, FACTS[name].found(run), line)
    if rule.law.holds(value, values):
        return RuleOutcome(rule, "kept")
    return _outcome(rule, "broken", FACTS[name].found(run), line)


def _line(law: Law, run: Candidate, name: str, value: Any) -> int | None:
    if not isinstance(value, frozenset):
        return run.lines.get((name, ""))
    wrong = [
        run.lines[name, each] for each in value if (name, each) in run.lines and not law.holds(frozenset({each}), {})
    ]
    return min(wrong, default=run.lines.get((name, "")))


def _of_table(rule: Rule, law: Has, value: Mapping[str, Any], named: str, line: int | None) -> RuleOutcome:
    missing = [entry for entry, _ in law.values if entry not in value]
    if missing:
        return _outcome(rule, "unknown", f"not in the journal: {', '.join(missing)}", line)
    if law.holds(value, {}):
        return RuleOutcome(rule, "kept")
    differing = [f"{entry} {written(value[entry])}" for entry, right in law.values if value[entry] != right]
    return _outcome(rule, "broken", f"{named} ({', '.join(differing)})", line)


def _outcome(
    rule: Rule, outcome: Literal["broken", "unknown"], found: str, line: int | None, remedy: str | None = None
) -> RuleOutcome:
    is_unknown = outcome == "unknown"
    breach = RuleViolation(
        rule=rule.text,
        found=f"unknown: {found}" if is_unknown else found,
        remedy=remedy or rule.remedy,
        is_unknown=is_unknown,
        option=rule.option,
        id=rule.id,
        source=rule.source,
        line=line,
    )
    return RuleOutcome(rule, outcome, breach)
