"""`python -m aiperf compare`: compare two runs, two groups of equal runs, or the equal runs of one group."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from aiperf.cli.output import print_result
from aiperf.errors import CannotCompare, conflict
from aiperf.files import given_path
from aiperf.report.figures import COMPARED, by_name

if TYPE_CHECKING:
    from aiperf.comparison.compare import Comparison

DESCRIPTION = """Compares runs from their journals: differences in configuration, system and figures, their statistical
significance, and the factors of the score. The uncertainty of several equal runs is their spread, that of
one run is the confidence interval of its score.

Exit status: 0 no regression beyond the margin, 1 a regression beyond it, 2 undetermined (not significant does
not mean equal), or the runs cannot be compared."""
EXAMPLES = (
    "runs/before runs/after",
    "runs/before runs/after --max-regression 2%",
    "A1 A2 A3 --with B1 B2 B3 --max-regression 1% --json",
    "--repeats runs/A1 runs/A2 runs/A3",
    "--scaling runs/1node runs/2nodes runs/4nodes --out scaling",
)
WIDTH = 80
STATUS = {"no regression": 0, "regression": 1, "cannot be determined": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        help="a run's folder, its name under runs/, its submission, or a folder of equal runs",
    )
    parser.add_argument("--with", dest="others", metavar="RUN", nargs="+", help="the runs of the second side")
    parser.add_argument("--repeats", action="store_true", help="all are repeats of one run: print their spread")
    parser.add_argument(
        "--scaling", action="store_true", help="weak scaling: print score and efficiency by number of accelerators"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=given_path,
        help="write the JSON of --json to this file; with --scaling: scaling.html and its figures into this folder",
    )
    parser.add_argument(
        "--max-regression", metavar="SHARE", help="largest accepted regression of the second side: 2%% or 0.02"
    )
    parser.add_argument(
        "--metric",
        type=lambda name: {"MFU": "mfu", "FLOPS/W": "flops-per-watt"}.get(name, name),  # former names, for one release
        choices=[name for name in COMPARED if by_name(name).better],
        default="score",
        help="figure that the margin applies to (default: score)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON; shares are in 0..1")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    margin = None if arguments.max_regression is None else share(arguments.max_regression)
    if arguments.scaling:
        return _scaling(arguments)
    arguments.json_file = arguments.out
    if arguments.repeats:
        return _repeats(arguments)
    from aiperf.comparison.comparability import side
    from aiperf.comparison.compare import compare
    from aiperf.comparison.text import comparison

    first, second = _two_sides(arguments)
    compared = compare(side(first), side(second), margin, arguments.metric)
    print_result("aiperf-comparison", asdict(compared), comparison(compared), arguments, width=WIDTH)
    return status(compared)


def status(comparison: Comparison) -> int:
    """Return the exit status of a comparison: 0 for no regression beyond the margin, 1 for a regression, 2 if undetermined."""
    return 0 if comparison.gate is None else STATUS[comparison.gate.verdict]


def _two_sides(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    if arguments.others is not None:
        return arguments.runs, arguments.others
    if len(arguments.runs) != 2:
        raise CannotCompare(
            f"{len(arguments.runs)} runs without --with are no two sides. Give RUN RUN, RUN… --with RUN… or --repeats RUN…"
        )
    return arguments.runs[:1], arguments.runs[1:]


def _repeats(arguments: argparse.Namespace) -> int:
    from aiperf.comparison import text
    from aiperf.comparison.comparability import side
    from aiperf.comparison.compare import repeats

    if arguments.others is not None or arguments.max_regression is not None:
        raise conflict("--repeats", "--with or --max-regression", "Leave these out", CannotCompare)
    group = side(arguments.runs)
    if len(group.runs) < 2:
        raise CannotCompare(f"a spread needs at least two runs, but found one, '{group.name}': add the others")
    comparison = repeats(group)
    print_result("aiperf-repeats", asdict(comparison), text.repeats(comparison), arguments, width=WIDTH)
    return 0


def _scaling(arguments: argparse.Namespace) -> int:
    from aiperf.comparison.cluster_sizes import cluster_sizes, size_table

    if arguments.others is not None or arguments.max_regression is not None:
        raise CannotCompare("--scaling takes neither --with nor --max-regression: leave these out")
    found = cluster_sizes(arguments.runs)
    print_result("aiperf-scaling", {"sizes": [asdict(size) for size in found.sizes]}, [size_table(found)], arguments)
    if arguments.out is not None:
        from aiperf.comparison.scaling_page import write

        print(f"wrote {write(found, arguments.out)}", file=sys.stderr)
    return 0


def share(text: str) -> float:
    """Return the share that the text of --max-regression means: 0.02 for `2%`, `2 %` or `0.02`."""
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise CannotCompare(
            f"--max-regression is a share from 0 to below 100 %, but found {text!r}: write it as 2% or 0.02"
        )
    return value
