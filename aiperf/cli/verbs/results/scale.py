"""`python -m aiperf scale`: print the efficiency of runs with more accelerators, and the causes of the loss."""

from __future__ import annotations

import argparse
import re
import sys
from fractions import Fraction

from aiperf.cli.output import print_result
from aiperf.errors import BadConfiguration
from aiperf.files import given_path

DESCRIPTION = """Compares runs that differ in the ranks of their worker: share of linear, points lost by line, speed-up and
serial fraction, from the starting network's trial of each journal without its first epoch. With --by it
compares runs that differ in one option: images per second, quality, the batch with the least time to a
target, and the share of the time that the cores bound. Ends in five sentences (docs/scaling.md)."""
EXAMPLES = (
    "runs/sweep-1a2b3c4d5e6f --out scaling",
    "runs/one runs/two runs/four --evaluation every=4 --json",
    "runs/sweep-1a2b3c4d5e6f --by trainer.precision",
    "runs/sweep-1a2b3c4d5e6f --predicted runs/within-worker --points published.csv",
    "--points published.csv",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", help="a run's folder, its name under runs/, or a folder of runs"
    )
    parser.add_argument(
        "--evaluation", metavar="out|in|every=N", default="out", help="evaluation in the time (default: out)"
    )
    parser.add_argument("--by", metavar="OPTION", help="compare the values of this option, or of `machine`")
    parser.add_argument(
        "--points",
        metavar="FILE.csv",
        type=given_path,
        help="figures from elsewhere: label,accelerators,global_batch,images_per_second,steps_to_target",
    )
    parser.add_argument(
        "--predicted", metavar="DIR", type=given_path, help="compare with this folder of `rehearse --within-worker`"
    )
    parser.add_argument(
        "--out", metavar="DIR", type=given_path, help="write scale.html and its figures into this folder"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.page.section import Items
    from aiperf.scaling.point import point_of
    from aiperf.scaling.scale_text import parts, scale_json, sentences, warnings
    from aiperf.scaling.study import study
    from aiperf.submission.submitted_runs import run_folders

    share = _share(arguments.evaluation)
    points = [point_of(folder) for word in arguments.runs for folder in run_folders(word)]
    scaled = study(points, share, arguments.by, arguments.points, arguments.predicted)
    texts = (*parts(scaled), Items((*sentences(scaled), *warnings(scaled))))
    print_result("aiperf-scale", scale_json(scaled), texts, arguments)
    if arguments.out is not None:
        from aiperf.scaling.page import write

        page = write(scaled, arguments.out)
        print(f"wrote {page}", file=sys.stderr)
    return 0


def _share(text: str) -> Fraction:
    every = re.fullmatch(r"every=([1-9]\d{0,8})", text)
    if every is None and text not in ("out", "in"):
        raise BadConfiguration(f"--evaluation is out, in or every=N, but found {text!r}: write every=4, for example")
    return Fraction(1, int(every[1])) if every else Fraction(text == "in")
