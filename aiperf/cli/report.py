"""`python -m aiperf report`: a run's report, from its journal alone."""

from __future__ import annotations

import argparse

DESCRIPTION = "Writes a run's report beside its journal: report.html, report.json, plots as PNG and SVG."
EXAMPLES = ("runs/20261121-120000-digits", "20261121-120000-digits")
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Writes the report and prints its last lines; gives the exit status."""
    from aiperf.planning.plan import run_folder

    folder = run_folder(arguments.run)
    from aiperf.report.text import closing_lines
    from aiperf.report.write import report_of, write

    report = report_of(folder)
    for line in closing_lines(report, write(report, folder).page):
        print(line)
    return 0
