"""`python -m aiperf compare`: two runs, or two groups of equal runs, against each other; or equal runs among themselves."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from aiperf.errors import CannotCompare

if TYPE_CHECKING:
    from aiperf.comparison.compare import Comparison

DESCRIPTION = """Compares runs from their journals: what differs in configuration, system and figures, whether the
difference is real, and what it is made of. A side of several equal runs is known by their spread, a single
run's score by how evenly it ran.

Exit status: 0 compared, and no regression beyond the margin; 1 a regression beyond it; 2 undetermined
(not significant is not equal), or the runs cannot be compared."""
EXAMPLES = (
    "runs/before runs/after",
    "runs/before runs/after --max-regression 2%",
    "A1 A2 A3 --with B1 B2 B3 --max-regression 1% --json",
    "--repeats runs/A1 runs/A2 runs/A3",
)
OPTIONS = ""
STATUS = {"no regression": 0, "regression": 1, "cannot be determined": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which runs, and what is asked of them."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="a run's folder, its name under runs/, or a folder of equal runs"
    )
    parser.add_argument("--with", dest="others", metavar="RUN", nargs="+", help="the runs of the second side")
    parser.add_argument(
        "--repeats", action="store_true", help="all are repeats of one run: how far they lie apart, and what from"
    )
    parser.add_argument("--max-regression", metavar="SHARE", help="2%% or 0.02: by so much the second may be worse")
    parser.add_argument(
        "--metric",
        choices=("score", "regulated", "error", "MFU", "FLOPS/W", "busy"),
        default="score",
        help="which figure the margin is held to (score)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON; shares are parts of one")


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints the comparison; gives the exit status."""
    margin = None if arguments.max_regression is None else share(arguments.max_regression)
    if arguments.repeats:
        return _repeats(arguments)
    from aiperf.comparison.compare import compare
    from aiperf.comparison.sides import side
    from aiperf.comparison.text import comparison_lines

    first, second = _two_sides(arguments)
    found = compare(side(first), side(second), margin, arguments.metric)
    if arguments.json:
        print(json.dumps(asdict(found), indent=2))
    else:
        print("\n".join(comparison_lines(found)))
    return status(found)


def status(found: Comparison) -> int:
    """0 where no margin was asked for, or it is kept; 1: it is not; 2: that cannot be determined."""
    return 0 if found.gate is None else STATUS[found.gate.verdict]


def _two_sides(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    if arguments.others is not None:
        return arguments.runs, arguments.others
    if len(arguments.runs) != 2:
        raise CannotCompare(
            f"two sides are compared; found {len(arguments.runs)} without --with: RUN RUN, RUN… --with RUN…, "
            "or --repeats RUN… for equal runs among themselves"
        )
    return arguments.runs[:1], arguments.runs[1:]


def _repeats(arguments: argparse.Namespace) -> int:
    from aiperf.comparison.compare import repeats
    from aiperf.comparison.sides import side
    from aiperf.comparison.text import repeats_lines

    if arguments.others is not None or arguments.max_regression is not None:
        raise CannotCompare(
            "--repeats looks at one side alone; found --with or --max-regression beside it: leave these out"
        )
    group = side(arguments.runs)
    if len(group.runs) < 2:
        raise CannotCompare(f"a spread is of two runs or more; found one, '{group.name}': give the others too")
    found = repeats(group)
    print(json.dumps(asdict(found), indent=2) if arguments.json else "\n".join(repeats_lines(found)))
    return 0


def share(text: str) -> float:
    """`2%`, `2 %` or `0.02` as a part of one.

    Raises:
        CannotCompare: it is none, or not from 0 to below 1.
    """
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise CannotCompare(f"--max-regression is a share from 0 to below 100 %, as 2% or 0.02; found {text!r}")
    return value
