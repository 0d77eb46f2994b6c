"""`python -m aiperf drive`: the run of a folder, begun there or gone on with. Scripts of batch jobs call it."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from aiperf.cli.program import tell

DESCRIPTION = """Drives the run of a folder: begins it there, or goes on with it where it has a journal; options that
differ from the journal's are refused. Scripts of batch jobs call it on the node that is to be the head;
whoever types it wants python -m aiperf instead."""
EXAMPLES = (
    "/shared/runs/20261121-120000-imagenet +cluster=slurm schedule=ranking",
    "--supervised /runs/20261121-120000-imagenet +cluster=kubernetes cluster.image=IMAGE",
)
OPTIONS = "[GROUP=CHOICE …] [OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run."""
    parser.add_argument("run", metavar="RUN", type=Path, help="the run's folder, made by who submitted the job")
    parser.add_argument(
        "--supervised",
        action="store_true",
        help="in a pod: make the folder where it is not there, and end with status 0 once another start could do no more, "
        "whatever the score: who started this starts it again otherwise",
    )
    parser.add_argument(
        "--options-in", metavar="NAME", help="read the options from this environment variable, a JSON list of them"
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Gives the exit status: 0 with a valid score, 1 without.

    Raises:
        BadConfiguration: options that no run can have, or a variable that holds none.
    """
    from aiperf.cli import run
    from aiperf.errors import CannotResume

    if arguments.options_in is not None:
        options = _options_in(arguments.options_in) + options
    if not arguments.supervised:
        return run.drive(options, arguments.run)
    arguments.run.mkdir(parents=True, exist_ok=True)
    try:
        status = run.drive(options, arguments.run)
    except CannotResume as over:
        tell(str(over))
        return 0
    # it ended by itself, with whatever score: a head that is lost leaves no status
    return status if status not in (0, 1) else 0


def _options_in(variable: str) -> list[str]:
    from aiperf.errors import BadConfiguration

    try:
        held = json.loads(os.environ.get(variable, ""))
    except ValueError:
        held = None
    if not isinstance(held, list) or not all(isinstance(word, str) for word in held):
        raise BadConfiguration(
            f"--options-in names a variable that holds a JSON list of options; {variable} holds none"
        )
    return held
