"""`python -m aiperf report`: write the report of a run, from its journal alone."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.cli.arguments import add_stated_error
from aiperf.files import given_path

if TYPE_CHECKING:
    from aiperf.report.training_floor import HostRoofs

DESCRIPTION = (
    "Writes the report of a run: report.html, report.json, plots as PNG, SVG and PDF. Default: into the run's\n"
    "folder. With --out the run's folder is only read, and may be a read-only archive."
)
EXAMPLES = (
    "runs/20261121-120000-digits",
    "20261121-120000-digits",
    "/archive/20261121-120000-digits --out report",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument(
        "--out", metavar="DIR", type=given_path, help="output folder, created if missing (default: the run's folder)"
    )
    parser.add_argument(
        "--roofs",
        metavar="PEAK.json",
        type=given_path,
        help="output of `bops peak --json` on the run's hosts, for the section Roofline (default: the journal's peaks)",
    )
    add_stated_error(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.submission.submitted_runs import require_out, run_folder

    require_out(arguments.run, arguments.out)
    folder = run_folder(arguments.run)
    from aiperf.cli.output import print_lines
    from aiperf.report.write import closing_lines, report_of, write

    report = report_of(folder, None if arguments.roofs is None else _roofs(arguments.roofs), arguments.error)
    paths = write(report, arguments.out or folder, folder)
    print_lines(closing_lines(report, paths, arguments.run))
    return 0


def _roofs(path: Path) -> HostRoofs:
    from aiperf.given_file import read_json
    from aiperf.report.training_floor import HostRoofs

    rule = "--roofs is the output of `bops peak --json` with the memory bandwidth"
    return read_json(path, rule, HostRoofs, "name such a file, or repeat that command")
