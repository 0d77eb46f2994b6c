"""`python -m aiperf report`: write the report of a run, from its journal alone."""

from __future__ import annotations

import argparse

from aiperf.files import given_path

DESCRIPTION = (
    "Writes the report of a run: report.html, report.json, plots as PNG, SVG and PDF. Default: into the run's\n"
    "folder. With --out the run's folder is only read, and may be a read-only archive."
)
EXAMPLES = (
    "runs/20261121-120000-digits",
    "20261121-120000-digits",
    "/archive/20261121-120000-digits --out report",
    "runs/after --against runs/before",
)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument(
        "--out", metavar="DIR", type=given_path, help="output folder, created if missing (default: the run's folder)"
    )
    parser.add_argument(
        "--against", metavar="RUN", help="add a section with the causes of the score difference to this run"
    )


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.journal.run_folder import run_folder

    folder = run_folder(arguments.run)
    from aiperf.cli.output import print_line
    from aiperf.report.text import closing_lines
    from aiperf.report.write import report_of, write

    report = report_of(folder)
    from aiperf.comparison.sections import against, following

    comparisons = [following(report, folder), None if arguments.against is None else against(report, arguments.against)]
    shown = [each for each in comparisons if each is not None]
    page = write(report, arguments.out or folder, folder, shown).page
    for line in closing_lines(report, page, arguments.run):
        print_line(line)
    return 0
