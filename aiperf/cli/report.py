"""`python -m aiperf report`: a run's report, from its journal alone."""

from __future__ import annotations

import argparse

from aiperf.files import given_path

DESCRIPTION = (
    "Writes a run's report beside its journal, or in a folder of its own (--out): report.html, report.json, plots\n"
    "as PNG and SVG. The run's folder is only read then, and may be a read-only archive."
)
EXAMPLES = (
    "runs/20261121-120000-digits",
    "20261121-120000-digits",
    "/archive/20261121-120000-digits --out report",
    "runs/after --against runs/before",
)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument(
        "--out", metavar="DIR", type=given_path, help="write there; the folder is made (default: the run's own folder)"
    )
    parser.add_argument(
        "--against", metavar="RUN", help="a second run: what the difference of the two scores is made of, as a section"
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Writes the report and prints its last lines; gives the exit status."""
    from aiperf.journal.run_folder import run_folder

    folder = run_folder(arguments.run)
    from aiperf.cli.program import tell
    from aiperf.report.text import closing_lines
    from aiperf.report.write import report_of, write

    report = report_of(folder)
    from aiperf.comparison.sections import against, following

    beside = [following(report, folder), None if arguments.against is None else against(report, arguments.against)]
    shown = [each for each in beside if each is not None]
    for line in closing_lines(report, write(report, arguments.out or folder, folder, shown).page):
        tell(line)
    return 0
