"""`python -m aiperf scale`: print how much of a worker is left with more accelerators, and what took the rest."""

from __future__ import annotations

import argparse
import json
import re
from fractions import Fraction
from pathlib import Path

from aiperf.errors import BadConfiguration

DESCRIPTION = """Compares runs that differ in the ranks of their worker: efficiency, points lost by line, speed-up and serial
fraction, from the starting network's trial of each journal without its first epoch (docs/scaling.md)."""
EXAMPLES = (
    "runs/sweep-20261121-120000",
    "runs/one runs/two runs/four --evaluation every=4 --json",
)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="a run's folder, its name under runs/, or a folder of runs"
    )
    parser.add_argument(
        "--evaluation", metavar="out|in|every=N", default="out", help="evaluation in the time (default: out)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    """Print the scaling and return the exit status."""
    from aiperf.cli.output import print_folded
    from aiperf.scaling.efficiency import scaling
    from aiperf.scaling.point import point_of
    from aiperf.scaling.scale_text import scale_json, scale_lines

    share = _share(arguments.evaluation)
    found = scaling([point_of(folder) for word in arguments.runs for folder in _folders(word)], share)
    if arguments.json:
        print(json.dumps(scale_json(found), indent=2))
    else:
        print_folded(scale_lines(found))
    return 0


def _share(text: str) -> Fraction:
    every = re.fullmatch(r"every=([1-9]\d{0,8})", text)
    if every is None and text not in ("out", "in"):
        raise BadConfiguration(f"--evaluation is out, in or every=N, but found {text!r}: write every=4, for example")
    return Fraction(1, int(every[1])) if every else Fraction(text == "in")


def _folders(word: str) -> list[Path]:
    """Return the run that the word names, or the runs in its folder."""
    from aiperf.files import given_path
    from aiperf.journal.journal import NAME
    from aiperf.journal.run_folder import run_folder

    for folder in (given_path(word), Path("runs") / word):
        below = sorted(path.parent for path in folder.glob(f"*/{NAME}"))
        if below and not (folder / NAME).is_file():
            return below
    return [run_folder(word)]
