"""`python -m aiperf check`: check a run against the rules of a division (named set of rules), from its journal alone."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from aiperf.cli.arguments import add_json
from aiperf.errors import BadConfiguration, conflict

if TYPE_CHECKING:
    from aiperf.ranking.breaches import RuleOutcome
    from aiperf.ranking.candidate import Candidate
    from aiperf.ranking.division import Division

DESCRIPTION = (
    "Checks a run against the rules of a division, from its journal alone. Prints every broken or undetermined\n"
    "rule with its source, the offending value, the line of the journal and the fix. With --level or --division\n"
    "hpc_ai500: differences from a reference by layer, and the levels that permit them (docs/hpc-ai500.md). Exit\n"
    "status: 0 the run is valid, 1 it is not valid, 2 it could not be checked (no such run, damaged journal, no\n"
    "such division)."
)
EXAMPLES = (
    "runs/20261121-120000-imagenet",
    "runs/20261121-120000-digits --division quick",
    "runs/20261121-120000-digits --division our-rules.yaml --json",
    "runs/20261121-120000-imagenet --level hardware --against runs/reference",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument(
        "--division",
        metavar="NAME|FILE",
        help="ranking (the default), quick, hpc_ai500 (levels, the default with --level), or a YAML file of rules like "
        "aiperf/ranking/divisions/ranking.yaml",
    )
    parser.add_argument("--level", choices=("hardware", "system", "free"), help="level of HPC AI500 to check")
    parser.add_argument("--against", metavar="RUN", help="reference of the level (default: the values of the preset)")
    add_json(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.cli.output import print_result
    from aiperf.journal.journal import read
    from aiperf.page.section import Items
    from aiperf.ranking.breaches import judgements
    from aiperf.ranking.division import division
    from aiperf.ranking.levels import DIVISION
    from aiperf.report.candidate import candidate_of
    from aiperf.submission.submitted_runs import run_folder

    if arguments.level or arguments.against or arguments.division == DIVISION:
        return _level(arguments)
    rules = division(arguments.division or "ranking", known_options())
    folder = run_folder(arguments.run)
    reader = read(folder)
    run = candidate_of(reader)
    outcomes, torn = judgements(run, rules), reader.reading.warning
    shares = {"attempts_lost_share": run.lost_share, "trials_given_up_share": run.given_up_share}
    facts = as_json(folder.name, rules, outcomes) | shares | {"warnings": [asdict(torn)] if torn else []}
    lines = Items(tuple(_lines(folder.name, rules, outcomes, run)))
    print_result("aiperf-check", facts, (lines, None if torn is None else Items((torn,))), arguments)
    return 0 if is_valid(outcomes) else 1


def _level(arguments: argparse.Namespace) -> int:
    from aiperf.cli.output import print_result
    from aiperf.comparison.comparability import differences_by_layer
    from aiperf.page.section import Paragraph
    from aiperf.ranking.levels import DIVISION, levels_of
    from aiperf.report.sections.configuration import differences_from_preset, level_table, preset_of, strictest
    from aiperf.report.write import report_of
    from aiperf.submission.submitted_runs import run_folder

    if arguments.division not in (None, DIVISION):
        raise conflict("--level and --against", f"--division {arguments.division}", "Leave the division out")
    report, is_preset = report_of(run_folder(arguments.run)), arguments.against is None
    reference = preset_of(report) if is_preset else arguments.against
    if reference is None:
        raise BadConfiguration(
            f"{arguments.run!r} has no preset, so its level is one against another run. Add --against RUN"
        )
    if is_preset:
        differences = differences_from_preset(report, reference)
    else:
        differences = differences_by_layer(report, report_of(run_folder(reference)))
    permitted = levels_of(differences)
    is_valid = bool(permitted) if arguments.level is None else arguments.level in permitted
    facts = {"run": report.run.name, "reference": reference, "level": arguments.level, "is_valid": is_valid}
    facts |= {"strictest": next(iter(permitted), None), "differences": [asdict(each) for each in differences]}
    verdict = f"level {arguments.level} is {'' if is_valid else 'not '}satisfied"
    if arguments.level is None:
        verdict = f"strictest level {strictest(differences)}"
    texts = (Paragraph(f"{report.run.name}: {verdict}"), level_table(reference, differences, is_preset=is_preset))
    print_result("aiperf-level", facts, texts, arguments)
    return 0 if is_valid else 1


def known_options() -> Collection[str]:
    """Return the sorted names that a file of rules may use: options of a run, values computed from them, and whole parts."""
    from aiperf.config import option_names
    from aiperf.ranking.division import BUILT_IN, division

    computed = {name for each in BUILT_IN for name in division(each).options() if name.startswith("space.")}
    named = {f"{part}.name" for each in BUILT_IN for part in division(each).chosen}
    names = {*option_names(), *computed, *named}
    return sorted(names | {name.partition(".")[0] for name in names})


def is_valid(outcomes: Sequence[RuleOutcome]) -> bool:
    """Return True if no rule is broken or undetermined. `outcomes`: outcome of each rule for one run."""
    return all(each.breach is None for each in outcomes)


def as_json(run: str, rules: Division, outcomes: Sequence[RuleOutcome]) -> dict[str, object]:
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
    from aiperf.ranking.division import BUILT_IN

    broken = [each for each in outcomes if each.outcome == "broken"]
    unknown = [each for each in outcomes if each.outcome == "unknown"]
    from aiperf.report.phrases import ranking_options

    left_out = sum(each.outcome == "not looked at" for each in outcomes)
    kept = "valid" if rules.name in BUILT_IN else "kept"  # "valid" is the word of a division
    verdict = kept if is_valid(outcomes) else f"not {kept}: {len(broken)} broken, {len(unknown)} unknown"
    lines = [f"{run} by the {rules.words} ({rules.title}): {verdict}, of {len(outcomes)} rules"]
    lines.append(f"  {losses(candidate)}")
    fix = ranking_options([each.breach for each in broken if each.breach is not None])
    if rules.name == "ranking" and fix is not None:
        lines.append(f"  a ranked run: {fix}")
    for each in (*broken, *unknown):
        lines += [f"  {line}" for line in _of_one(each)]
    if left_out:
        why = (
            "the results of a simulated run are invented" if candidate.is_simulated else "they are about another choice"
        )
        lines.append(f"  {left_out} rules do not apply to this run: {why}")
    return lines
