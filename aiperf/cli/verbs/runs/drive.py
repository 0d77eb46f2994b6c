"""`python -m aiperf drive`: start or resume the run of a folder. The scripts of batch jobs call this verb."""

from __future__ import annotations

import argparse
import json
import os

from aiperf.cli.output import print_line
from aiperf.files import given_path

DESCRIPTION = """Starts the run of a folder, or resumes it if the folder has a journal. Options must equal those of the
journal. Scripts of batch jobs call this verb on the head node. To start a run by hand, use python -m aiperf."""
EXAMPLES = (
    "/shared/runs/20261121-120000-imagenet +cluster=slurm schedule=ranking",
    "--supervised /runs/20261121-120000-imagenet +cluster=kubernetes cluster.image=IMAGE",
)
OPTIONS = "[GROUP=CHOICE …] [OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", metavar="RUN", type=given_path, help="the run's folder, created when the job was submitted"
    )
    parser.add_argument(
        "--supervised",
        action="store_true",
        help="for a pod that is restarted on failure: create the folder if it is missing, and exit with status 0 once the run "
        "is over, whatever its score",
    )
    parser.add_argument(
        "--options-in", metavar="NAME", help="read the options from this environment variable, a JSON list"
    )


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    import signal

    from aiperf import interrupts
    from aiperf.cli import run
    from aiperf.errors import CannotResume

    # The batch script of a node that was cut off signals its steps, and steps of the requeued job have the same ids.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if arguments.options_in is not None:
        options = _options_in(arguments.options_in) + options
    if not arguments.supervised:
        return run.drive(options, arguments.run)
    arguments.run.mkdir(parents=True, exist_ok=True)
    try:
        status = run.drive(options, arguments.run)
    except CannotResume as over:
        print_line(str(over))
        return 0
    # 0 and 1: the run is over. A pod that is moved to another node gets SIGTERM, and its successor resumes the run.
    return interrupts.status(status if status not in (0, 1) else 0)


def _options_in(variable: str) -> list[str]:
    from aiperf.errors import BadConfiguration

    try:
        words = json.loads(os.environ.get(variable, ""))
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadConfiguration(
            f"--options-in names a variable with a JSON list of options, but {variable} has none: set it, as in '[\"seed=1\"]'"
        )
    return words
