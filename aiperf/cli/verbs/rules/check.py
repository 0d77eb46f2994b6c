"""`python -m aiperf check`: check a run against the rules of a division, from its journal alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from aiperf.errors import BadConfiguration

if TYPE_CHECKING:
    from aiperf.ranking.breaches import RuleOutcome
    from aiperf.ranking.candidate import Candidate
    from aiperf.ranking.division import Division
    from aiperf.ranking.levels import LevelJudgement

DESCRIPTION = (
    "Checks a run against the rules of a division, from its journal alone. Prints every broken or undetermined\n"
    "rule with its source, the offending value, the line of the journal and the fix. With --level: the differences\n"
    "from a reference by layer, and the strictest level of HPC AI500 that permits them. Exit status: 0 the run is\n"
    "valid, 1 it is not valid, 2 it could not be checked (no such run, damaged journal, no such division)."
)
EXAMPLES = (
    "runs/20261121-120000-imagenet",
    "runs/20261121-120000-digits --division quick",
    "runs/20261121-120000-digits --division our-rules.yaml --json",
    "runs/20261121-120000-imagenet --level hardware --against runs/20261120-120000-imagenet",
)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument(
        "--division",
        metavar="NAME|FILE",
        help="ranking (the default), quick, hpc_ai500 (the default with --level), or a YAML file of rules like "
        "aiperf/ranking/divisions/ranking.yaml",
    )
    parser.add_argument("--level", metavar="LEVEL", help="hardware, system or free: level of HPC AI500 to check")
    parser.add_argument("--against", metavar="RUN", help="reference of the level (default: the values of the preset)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    """Print the result of every rule and return the exit status."""
    from aiperf.cli.output import print_line
    from aiperf.journal.journal import read
    from aiperf.journal.run_folder import run_folder
    from aiperf.ranking.breaches import judgements
    from aiperf.ranking.division import LEVELLED, division
    from aiperf.report.candidate import candidate_of
    from aiperf.sanitize import sanitize

    by_default = "ranking" if arguments.level is None else LEVELLED[0]
    rules = division(by_default if arguments.division is None else arguments.division, known_options())
    if arguments.level is not None or rules.levels or arguments.against is not None:
        return _level(arguments, rules)
    folder = run_folder(arguments.run)
    reader = read(folder)
    run = candidate_of(reader)
    outcomes, torn = judgements(run, rules), reader.reading.warning
    if arguments.json:
        print(
            json.dumps(
                as_json(folder.name, rules, outcomes)
                | {
                    "attempts_lost_share": run.lost_share,
                    "trials_given_up_share": run.given_up_share,
                    "warnings": [asdict(torn)] if torn else [],
                },
                indent=2,
            )
        )
    else:
        for line in _lines(folder.name, rules, outcomes, run):
            print_line(sanitize(line))
        if torn is not None:
            print_line("\n".join(f"  {line}" for line in torn.lines))
    return 0 if is_valid(outcomes) else 1


def _level(arguments: argparse.Namespace, rules: Division) -> int:
    """Print the differences by layer and return the exit status."""
    from aiperf.cli.output import print_folded
    from aiperf.comparison.levels import against_run
    from aiperf.journal.run_folder import run_folder
    from aiperf.report.level import against_preset, preset_of
    from aiperf.report.write import report_of
    from aiperf.sanitize import sanitize

    if arguments.level not in rules.levels:
        raise BadConfiguration(
            f"--level is one of the levels of a division ({', '.join(rules.levels) or f'{rules.name} has none'}), but found "
            f"{arguments.level!r}: use --level hardware, without --division or with --division hpc_ai500"
        )
    report = report_of(run_folder(arguments.run))
    if arguments.against is not None:
        judged = against_run(report, report_of(run_folder(arguments.against)), rules)
    elif (preset := preset_of(report)) is not None:
        judged = against_preset(report, preset, rules)
    else:
        raise BadConfiguration(
            f"a run without a preset has a level only against another run, but found no --against for {arguments.run!r}: "
            "add --against RUN"
        )
    is_satisfied = arguments.level in judged.satisfied
    if arguments.json:
        facts = {
            "run": report.run.name,
            "level": arguments.level,
            "is_valid": is_satisfied,
            "strictest": judged.strictest,
        }
        print(json.dumps(facts | asdict(judged), indent=2))
    else:
        print_folded(map(sanitize, _level_lines(report.run.name, arguments.level, judged)))
    return 0 if is_satisfied else 1


def _level_lines(run: str, level: str, judged: LevelJudgement) -> Iterator[str]:
    from aiperf.report.level import in_words, rows

    verdict = "satisfied" if level in judged.satisfied else "not satisfied"
    kind = "the values of " if judged.is_preset else ""
    yield f"{run} against {kind}{judged.reference}: level {level} {verdict}, strictest level {judged.strictest or 'none'}"
    for row in rows(judged):
        machine = "" if row.is_compared else " (machine not compared: add --against RUN)"
        yield f"  {row.layer}: differences: {len(row.differences) or 'none'}{machine}"
        for each in row.differences:
            mark = "permitted" if level in each.open_at else "not permitted"
            yield f"    {in_words(each)}: {mark} (open at {', '.join(each.open_at) or 'no level'})"


def known_options() -> Collection[str]:
    """Return the names that a file of rules may use: options, values that a plan computes from them, and whole parts."""
    from aiperf.config import option_names
    from aiperf.ranking.division import BUILT_IN, division

    computed = {name for each in BUILT_IN for name in division(each).options() if name.startswith("space.")}
    named = {f"{part}.name" for each in BUILT_IN for part in division(each).chosen}
    names = {*option_names(), *computed, *named}
    return sorted(names | {name.partition(".")[0] for name in names})


def is_valid(outcomes: Sequence[RuleOutcome]) -> bool:
    """Return True if no rule is broken or unknown."""
    return all(each.breach is None for each in outcomes)


def as_json(run: str, rules: Division, outcomes: Sequence[RuleOutcome]) -> dict[str, object]:
    """Return the content of --json. `rules`: outcome of each rule. `breaches`: broken and unknown rules."""
    return {
        "run": run,
        "division": rules.name,
        "is_valid": is_valid(outcomes),
        "rules": {each.rule.id: each.outcome for each in outcomes},
        "breaches": [
            asdict(each.breach) | {"law": f"{each.rule.about}: {each.rule.law}"}
            for each in outcomes
            if each.breach is not None
        ],
    }


def _of_one(outcome: RuleOutcome) -> list[str]:
    breach = outcome.breach
    assert breach is not None
    where = "the whole journal" if breach.line is None else f"line {breach.line} of the journal"
    return [
        f"{breach.id}: {breach.rule} [{', '.join(breach.source)}]",
        f"  found: {breach.found} ({where})",
        f"  to fix it: {breach.remedy}",
    ]


def _lines(run: str, rules: Division, outcomes: Sequence[RuleOutcome], candidate: Candidate) -> list[str]:
    from aiperf.ranking.candidate import losses

    broken = [each for each in outcomes if each.outcome == "broken"]
    unknown = [each for each in outcomes if each.outcome == "unknown"]
    from aiperf.report.phrases import ranking_options

    left_out = sum(each.outcome == "not looked at" for each in outcomes)
    verdict = "valid" if is_valid(outcomes) else f"not valid: {len(broken)} broken, {len(unknown)} unknown"
    lines = [f"{run} by the rules of {rules.name!r} ({rules.title}): {verdict}, of {len(outcomes)} rules"]
    lines.append(f"  {losses(candidate)}")
    fix = ranking_options([each.breach for each in broken if each.breach is not None])
    if rules.name == "ranking" and fix is not None:
        lines.append(f"  a ranking run: {fix}")
    for each in (*broken, *unknown):
        lines += [f"  {line}" for line in _of_one(each)]
    if left_out:
        why = (
            "the results of a simulated run are invented" if candidate.is_simulated else "they are about another choice"
        )
        lines.append(f"  {left_out} rules do not apply to this run: {why}")
    return lines
