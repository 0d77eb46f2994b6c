"""`python -m aiperf verify`: whether a journal can be true, from it alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from aiperf.cli.numbers import add_number

if TYPE_CHECKING:
    from aiperf.verify import Checked, Verification

DESCRIPTION = """Verifies a run from its journal: hashes, times, decisions, architectures, operation counts,
proposals, epochs, images, rates and the score are worked out again. No accelerator is needed.
Status 0: nothing contradicts itself; 1: something does; 2: it cannot be read."""
EXAMPLES = ("runs/20261121-120000-digits", "runs/20261121-120000-digits --all", "runs/20261121-120000-digits --json")
OPTIONS = ""
SHOWN = 5
"""Findings of a check that are told; all that are kept are in --json."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, how much of it, and how to show it."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, its name under runs/, or a journal file")
    parser.add_argument("--all", action="store_true", help="make every proposal again, not a sample")
    add_number(parser, "--sample", "how many", least=0, default_in_words="50")
    parser.add_argument(
        "--followed", metavar="RUN", help="the run that it follows (follow=), which its trials are held to"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints what was checked and found; gives the exit status."""
    from pathlib import Path

    from aiperf.journal.run_folder import run_folder
    from aiperf.verify import verify
    from aiperf.verify.sample import DEFAULT

    # not in add_arguments: every verb's --help would wait for what a verification loads
    sample = DEFAULT if arguments.sample is None else arguments.sample
    path = Path(arguments.run)
    followed = None if arguments.followed is None else run_folder(arguments.followed)
    run = path if path.is_file() else run_folder(arguments.run)
    found = verify(run, None if arguments.all else sample, followed)
    if arguments.json:
        print(json.dumps(asdict(found) | {"is_sound": found.is_sound}, indent=2))
    else:
        for line in lines(found):
            print(line)
    return 0 if found.is_sound else 1


def lines(found: Verification) -> Iterator[str]:
    """What was checked, how many, what was found, and what is not checkable and why."""
    from aiperf.plain import plain
    from aiperf.units import flops_per_second

    figure = found.score.flops_per_second if found.score is not None else None
    named = "" if figure is None else f" · score {flops_per_second(figure)}"
    yield f"{plain(found.run or found.path)}: {found.lines} lines{named}"
    for check in found.checks:
        yield f"  {_mark(check)}  {check.name:<14} {_counted(check)}"
        for finding in check.findings[:SHOWN]:
            where = "" if finding.line is None else f"line {finding.line}: "
            unsure = "" if finding.certainty == "contradiction" else " (cannot be determined)"
            yield f"      {plain(where + finding.found)}{unsure}"
            yield f"        law: {finding.law}"
        more = check.contradictions + check.untold - min(SHOWN, len(check.findings))
        if more > 0:
            yield f"      and {more} more"
        if check.not_checked is not None:
            yield f"      not checked: {plain(check.not_checked)}"
    if found.sample and any(check.name == "proposals" and check.examined for check in found.checks):
        yield f"  proposals made again: drawn by the journal's last hash, {found.chain[:16]}…"
    if found.is_sound:
        yield "nothing contradicts itself; docs/verification.md says what that shows and what it cannot"
    else:
        yield f"contradictions: {found.contradictions}"


def _mark(check: Checked) -> str:
    if check.contradictions:
        return "NO"
    return " ?" if check.untold else "ok" if check.examined else " -"


def _counted(check: Checked) -> str:
    of = "" if check.of is None or check.of == check.examined else f" of {check.of}"
    counts = f"{check.examined}{of} {check.unit}"
    if check.contradictions:
        counts += f", {check.contradictions} contradict"
    return counts + (f", of {check.untold} it cannot be determined" if check.untold else "")
