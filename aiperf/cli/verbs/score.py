"""`python -m aiperf score`: print the figures of a run, from its journal alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiperf.accounting.score import Score
    from aiperf.ranking.breaches import RuleViolation


DESCRIPTION = """Computes the score of a run from its journal and checks the journal's hash chain.

Exit status: 0 the score is valid, 1 there is no valid score (the reason and the next step are printed), 2 the
run cannot be read (no such run, damaged journal)."""
EXAMPLES = ("runs/20261121-120000-digits", "runs/20261121-120000-digits --json")
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    """Print the figures and return the exit status."""
    from aiperf.journal.run_folder import run_folder
    from aiperf.report.write import report_of

    report = report_of(run_folder(arguments.run))
    if arguments.json:
        energy = None if report.energy is None else asdict(report.energy)
        losses = None if report.losses is None else asdict(report.losses)
        print(
            json.dumps(
                as_json(report.score)
                | {"warnings": list(map(asdict, report.warnings))}
                | {"ranking": ranking(report.breaches), "losses": losses, "energy": energy},
                indent=2,
            )
        )
        return status(report.score)
    from aiperf.cli.output import print_folded
    from aiperf.report.text import closing_lines

    print_folded(closing_lines(report, run=arguments.run))
    return status(report.score)


def status(score: Score) -> int:
    """Return the exit status: 0 with a valid score, 1 without."""
    return 0 if score.valid else 1


def as_json(score: Score) -> dict[str, Any]:
    """Return the figures of --json. An undefined figure is null, never zero."""
    return asdict(score)


def ranking(breaches: Sequence[RuleViolation]) -> list[dict[str, Any]]:
    """Return the broken and the undetermined (`is_unknown`) rules of the ranking."""
    return [asdict(breach) for breach in breaches]
