"""`python -m aiperf drive`: the run of a folder, begun there or gone on with. Scripts of batch jobs call it."""

from __future__ import annotations

import argparse
from pathlib import Path

DESCRIPTION = """Drives the run of a folder: begins it there, or goes on with it where it has a journal. Scripts of batch jobs
call it on the node that is to be the head; whoever types it wants python -m aiperf instead."""
EXAMPLES = ("/shared/runs/20261121-120000-imagenet +cluster=slurm schedule=ranking",)
OPTIONS = "[GROUP=CHOICE …] [OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run."""
    parser.add_argument("run", metavar="RUN", type=Path, help="the run's folder, made by who submitted the job")


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Gives the exit status: 0 with a valid score, 1 without."""
    from aiperf.cli import run
    from aiperf.config import configure

    return run.drive(configure(options), arguments.run)
