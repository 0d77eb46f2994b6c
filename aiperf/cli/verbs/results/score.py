"""`python -m aiperf score`: print the figures of a run, from its journal alone."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from aiperf.cli.arguments import add_json, add_stated_error
from aiperf.cli.output import print_result

DESCRIPTION = """Computes the score of a run from its journal and checks the journal's hash chain.

Exit status: 0 the score is valid, 1 there is no valid score (the reason and the next step are printed), 2 the
run cannot be read (no such run, damaged journal)."""
EXAMPLES = ("runs/20261121-120000-digits", "runs/20261121-120000-digits --json")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    add_json(parser)
    add_stated_error(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from msgspec import to_builtins

    from aiperf.page.section import Items
    from aiperf.report.figures import values
    from aiperf.report.write import closing_lines, report_of
    from aiperf.submission.submitted_runs import run_folder

    report = report_of(run_folder(arguments.run), stated_error=arguments.error)
    parts = {name: getattr(report, name) for name in ("warnings", "breaches", "losses", "energy", "error_figures")}
    parts["ranking"] = report.breaches  # former name, until the next release
    of_network = {} if report.fixed_network is None else asdict(report.fixed_network)
    facts = to_builtins({**asdict(report.score), "figures": values(report), **parts, **of_network})
    print_result("aiperf-score", facts, [Items(closing_lines(report, run=arguments.run))], arguments)
    return 0 if report.score.valid else 1
