"""`python -m aiperf witness`: sign the states of another site's journal while its run goes on."""

from __future__ import annotations

import argparse
import time

from aiperf.cli.arguments import add_number
from aiperf.cli.output import print_line
from aiperf.files import given_path

DESCRIPTION = """Signs the number of lines and the hash of a run's journal into the site's log, every 10 minutes until the run
ends. Call it with the key of another site. `inspect` and `rank` then show a journal that was changed
afterwards, and the share of the run's time that was witnessed."""
EXAMPLES = (
    "/shared/runs/20261121-120000-imagenet --key ~/.ssh/id_ed25519",
    "copied/20261121-120000-imagenet --key ~/.ssh/id_ed25519.pub --log site/ --every 300",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument(
        "--key", type=given_path, required=True, help="Ed25519 private key, or the .pub file of a key in ssh-agent"
    )
    parser.add_argument("--log", metavar="FILE", help="log of announcements (default: the log in the run's options)")
    add_number(
        parser, "--every", "seconds between two entries", float, metavar="SECONDS", default=600.0, above=0.0, most=86400
    )


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.journal.run_folder import run_folder
    from aiperf.submission.witnessed import witness

    folder, is_over = run_folder(arguments.run), False
    while not is_over:
        entry, is_over = witness(folder, arguments.log, arguments.key)
        print_line(f"witnessed  {entry.run}: line {entry.lines}, hash {entry.hash}, entry {entry.number} of the log")
        time.sleep(0.0 if is_over else arguments.every)
    return 0
