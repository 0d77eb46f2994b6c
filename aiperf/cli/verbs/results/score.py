"""`python -m aiperf score`: print the figures of a run, from its journal alone."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from aiperf.cli.arguments import add_stated_error
from aiperf.cli.output import print_json

DESCRIPTION = """Computes the score of a run from its journal and checks the journal's hash chain.

Exit status: 0 the score is valid, 1 there is no valid score (the reason and the next step are printed), 2 the
run cannot be read (no such run, damaged journal)."""
EXAMPLES = ("runs/20261121-120000-digits", "runs/20261121-120000-digits --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_stated_error(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from msgspec import to_builtins

    from aiperf.report.figures import values
    from aiperf.report.write import report_of
    from aiperf.submission.submitted_runs import run_folder

    report = report_of(run_folder(arguments.run), stated_error=arguments.error)
    status = 0 if report.score.valid else 1
    if arguments.json:
        parts = {name: getattr(report, name) for name in ("warnings", "breaches", "losses", "energy", "error_figures")}
        parts["ranking"] = report.breaches  # former name, until the next release
        of_network = {} if report.fixed_network is None else asdict(report.fixed_network)
        print_json(to_builtins({**asdict(report.score), "figures": values(report), **parts, **of_network}))
        return status
    from aiperf.cli.output import print_folded
    from aiperf.report.write import closing_lines

    print_folded(closing_lines(report, run=arguments.run))
    return status
