"""`python -m aiperf score`: a run's figures, from its journal alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiperf.accounting.score import Score
    from aiperf.ranking.breaches import Breach


DESCRIPTION = """Scores a run from its journal alone; its chain of hashes is checked.

Exit status: 0 the score is valid, 1 there is none that is valid (why, and what to do next, is printed), 2 it
cannot be read (no such run, a damaged journal)."""
EXAMPLES = ("runs/20261121-120000-digits", "runs/20261121-120000-digits --json")
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, and how to show it."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument("--json", action="store_true", help="print JSON")


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints the figures; gives the exit status."""
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
    from aiperf.cli.fold import say
    from aiperf.report.text import closing_lines

    say(closing_lines(report))
    return status(report.score)


def status(found: Score) -> int:
    """The exit status: 0 with a valid score, 1 without."""
    return 0 if found.valid else 1


def as_json(found: Score) -> dict[str, Any]:
    """The figures of --json. null is what is not defined, never zero."""
    return asdict(found)


def ranking(breaches: Sequence[Breach]) -> list[dict[str, Any]]:
    """What keeps the run out of the ranking: rules that are broken, and rules undetermined ones (`is_unknown`)."""
    return [asdict(breach) for breach in breaches]
