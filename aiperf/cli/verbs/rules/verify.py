"""`python -m aiperf verify`: recompute a run from its journal and report contradictions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from aiperf.cli.arguments import add_number
from aiperf.cli.output import print_json

if TYPE_CHECKING:
    from aiperf.verify import CheckResult, Verification

DESCRIPTION = """Verifies a run from its journal: recomputes hashes, times, decisions, architectures, operation counts,
proposals, epochs, images, rates and the score. No accelerator is needed.
Exit status: 0 no contradiction, 1 a contradiction, 2 the journal cannot be read."""
EXAMPLES = ("runs/20261121-120000-digits", "runs/20261121-120000-digits --all", "runs/20261121-120000-digits --json")
SHOWN = 5
"""Number of printed findings per check. --json has all stored findings."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, its name under runs/, or a journal file")
    parser.add_argument("--all", action="store_true", help="recompute every proposal, not a sample")
    add_number(parser, "--sample", "proposals to recompute", least=0, default_in_words="50")
    parser.add_argument(
        "--followed", metavar="RUN", help="the run that this run follows (follow=), to compare the trials"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from pathlib import Path

    from aiperf.journal.run_folder import run_folder
    from aiperf.verify import verify
    from aiperf.verify.verification import DEFAULT

    # not in add_arguments: --help would import the verification
    sample = DEFAULT if arguments.sample is None else arguments.sample
    path = Path(arguments.run)
    followed = None if arguments.followed is None else run_folder(arguments.followed)
    run = path if path.is_file() else run_folder(arguments.run)
    verification = verify(run, None if arguments.all else sample, followed)
    if arguments.json:
        print_json(asdict(verification) | {"is_sound": verification.is_sound})
    else:
        for line in lines(verification):
            print(line)
    return 0 if verification.is_sound else 1


def lines(verification: Verification) -> Iterator[str]:
    """Yield each check with its counts and at most 5 findings, and what was not checked."""
    from aiperf.sanitize import sanitize
    from aiperf.units import flops_per_second

    figure = verification.score.flops_per_second if verification.score is not None else None
    named = "" if figure is None else f" · score {flops_per_second(figure)}"
    yield f"{sanitize(verification.run or verification.path)}: {verification.lines} lines{named}"
    for check in verification.checks:
        yield f"  {_mark(check)}  {check.name:<14} {_counted(check)}"
        for finding in check.findings[:SHOWN]:
            where = "" if finding.line is None else f"line {finding.line}: "
            unsure = "" if finding.certainty == "contradiction" else " (cannot be determined)"
            yield f"      {sanitize(where + finding.found)}{unsure}"
            yield f"        rule: {finding.law}"
        more = check.contradictions + check.untold - min(SHOWN, len(check.findings))
        if more > 0:
            yield f"      and {more} more"
        if check.not_checked is not None:
            yield f"      not checked: {sanitize(check.not_checked)}"
    if verification.sample and any(check.name == "proposals" and check.examined for check in verification.checks):
        yield f"  sample of proposals recomputed, chosen by the journal's last hash, {verification.chain[:16]}…"
    if verification.is_sound:
        yield "no contradictions; docs/ranking.md explains what this proves and what it does not"
    else:
        yield f"contradictions: {verification.contradictions}"


def _mark(check: CheckResult) -> str:
    if check.contradictions:
        return "NO"
    return " ?" if check.untold else "ok" if check.examined else " -"


def _counted(check: CheckResult) -> str:
    of = "" if check.of is None or check.of == check.examined else f" of {check.of}"
    counts = f"{check.examined}{of} {check.unit}"
    if check.contradictions:
        counts += f", {check.contradictions} contradict"
    return counts + (f", {check.untold} could not be checked" if check.untold else "")
