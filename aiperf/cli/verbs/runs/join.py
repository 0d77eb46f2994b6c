"""`python -m aiperf join`: add this host to the Ray cluster of a run."""

from __future__ import annotations

import argparse
import sys

from aiperf.cli.arguments import add_number
from aiperf.cli.output import in_users_form
from aiperf.files import given_path
from aiperf.option_limits import LONGEST_SECONDS

DESCRIPTION = """Adds this host as a node to the run of a folder. The scripts of batch jobs call this verb. It also adds a host
to a run in progress. It ends when the head of the run ends. All hosts must share the folder."""
EXAMPLES = ("/shared/runs/20261121-120000-imagenet",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", type=given_path, help="the run's folder; its driver may start later")
    add_number(
        parser,
        "--patience",
        "longest wait for the head",
        float,
        metavar="SECONDS",
        default=600.0,
        least=0,
        most=LONGEST_SECONDS,
    )
    parser.add_argument(
        "--rejoin",
        action="store_true",
        help="if the head ends before the run is over, wait as long for the next head",
    )
    parser.add_argument(
        "--tied",
        action="store_true",
        help="leave when standard input ends, as it does when an SSH connection ends",
    )


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.drive.ray.cluster.join_node import ParentConnection, join
    from aiperf.errors import HeadLost
    from aiperf.planning.worker_shape import require_owned
    from aiperf.system.describe import describe_usable
    from cluster.place import HEAD_LOST

    require_owned(describe_usable())
    tie = ParentConnection(0 if arguments.tied else None)
    try:
        join(arguments.run, arguments.patience, rejoins=arguments.rejoin, tie=tie)
    except HeadLost as lost:
        print(f"aiperf: {in_users_form(str(lost))}", file=sys.stderr)
        return HEAD_LOST
    return 0
