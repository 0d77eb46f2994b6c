"""`python -m aiperf join`: this host becomes a node of a run's Ray."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from aiperf.cli.numbers import add_number
from aiperf.cli.program import as_called
from aiperf.option_limits import LONGEST_SECONDS

DESCRIPTION = """Makes this host a node of the run whose folder it is: the scripts of batch jobs call it, and whoever
adds a host to a run that goes on. Ends with the run's head. All hosts must share the folder."""
EXAMPLES = ("/shared/runs/20261121-120000-imagenet",)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, and how long its head is waited for."""
    parser.add_argument("run", metavar="RUN", type=Path, help="the run's folder; its driver may come up later")
    add_number(
        parser,
        "--patience",
        "wait so long for its head",
        float,
        metavar="SECONDS",
        default=600.0,
        least=0,
        most=LONGEST_SECONDS,
    )
    parser.add_argument(
        "--rejoin",
        action="store_true",
        help="when the head has gone before the run was over, wait as long for the next",
    )
    parser.add_argument(
        "--tied",
        action="store_true",
        help="leave when standard input ends, as it does with the connection of who started this",
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Stays until the run is over; gives the exit status: HEAD_LOST where its head has gone without ending it."""
    from aiperf.drive.ray.join_node import Tie, join
    from aiperf.errors import HeadLost
    from cluster.place import HEAD_LOST

    tie = Tie(0 if arguments.tied else None)
    try:
        join(arguments.run, arguments.patience, rejoins=arguments.rejoin, tie=tie)
    except HeadLost as lost:
        print(f"aiperf: {as_called(str(lost))}", file=sys.stderr)
        return HEAD_LOST
    return 0
