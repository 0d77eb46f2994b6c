"""`python -m aiperf standing`: compare runs with the entries of a published list."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

from aiperf.cli.arguments import add_json, add_number
from aiperf.cli.output import print_result
from aiperf.errors import BadConfiguration
from aiperf.files import given_path

DESCRIPTION = """Compares the score of runs with a list of supercomputers, such as an export of the TOP500. Prints the place
by FLOPS and by FLOPS/W, the neighbours, and the ratio to one entry. Precision and problem of the list differ
from those of a run. Exit status: 0 every run has a place, 1 some have none."""
EXAMPLES = (
    "runs/20261121-120000-digits --list TOP500_201906.csv",
    "runs/a runs/b --list list.csv --column 'rmax=Rmax [TFlop/s]' --json",
    "--flops 1.2e15 --list list.csv",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="*", help="a run's folder, or its name under runs/")
    add_number(parser, "--flops", "place this figure in FLOPS, as of HPL", float, above=0, most=1e21, metavar="FLOPS")
    parser.add_argument(
        "--list", metavar="FILE", required=True, type=given_path, help="CSV or .xlsx file with a header line"
    )
    parser.add_argument("--to", metavar="NAME", help="print the ratio to this entry")
    parser.add_argument(
        "--column",
        metavar="COLUMN=HEADER",
        action="append",
        default=[],
        help="header of rank, name, computer, site, rmax or power, if it is not recognised; may be repeated",
    )
    parser.add_argument(
        "--unit",
        metavar="COLUMN=UNIT",
        action="append",
        default=[],
        help="unit of rmax or power without one in its header",
    )
    add_json(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.report.write import report_of
    from aiperf.scaling.standing import COLUMNS, named_entry, read_list, standing, standing_of_figure
    from aiperf.scaling.text import standing_json, standing_part
    from aiperf.submission.submitted_runs import run_folder

    headers = _by_column("--column", arguments.column, COLUMNS, "rmax='Rmax [TFlop/s]'")
    units = _by_column("--unit", arguments.unit, ("rmax", "power"), "rmax=TFlop/s")
    entries = read_list(arguments.list, headers, units)
    to = None if arguments.to is None else named_entry(entries, arguments.to)
    placed = [standing(report_of(run_folder(run)), entries, to) for run in arguments.runs]
    if arguments.flops is not None:
        placed.append(standing_of_figure(arguments.flops, entries, to))
    if not placed:
        raise BadConfiguration("standing needs a run or a figure. Name a RUN, or give --flops")
    facts = standing_json(str(arguments.list), entries, placed)
    parts = [standing_part(each, None if to is None else to.name) for each in placed]
    print_result("aiperf-standing", facts, parts, arguments)
    return 1 if any(each.lacks for each in placed) else 0


def _by_column(option: str, words: Sequence[str], columns: Collection[str], example: str) -> dict[str, str]:
    given = {}
    for word in words:
        column, _, value = word.partition("=")
        if column not in columns or not value:
            raise BadConfiguration(
                f"{option} is one of {', '.join(columns)} with =VALUE, but found {word!r}: write {example}"
            )
        given[column] = value
    return given
