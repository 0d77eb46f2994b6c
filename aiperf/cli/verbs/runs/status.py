"""`python -m aiperf status`: show the state of a run in progress, from its journal alone."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict

from aiperf.cli.output import print_json

DESCRIPTION = """Shows the state of a run on another host or in a batch job, from its journal. Neither the run nor the
scheduler is contacted."""
EXAMPLES = ("/shared/runs/20261121-120000-imagenet", "--json /shared/runs/20261121-120000-imagenet")
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument("--json", action="store_true", help="print one JSON object; times in seconds, rates in FLOP/s")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.cli.run_status import lines, status_of
    from aiperf.journal.run_folder import run_folder

    folder = run_folder(arguments.run)
    if arguments.json:
        status = asdict(status_of(folder, time.time()))
        view, score = status["view"], status["view"]["score"]
        former = score | view | {"window_flops_per_second": score["flops_per_second"]}  # former names, for one release
        print_json(status | {"view": former}, indent=None)
        return 0
    from aiperf.cli.output import print_folded

    print_folded(lines(folder, time.time()))
    return 0
