"""`python -m aiperf rank`: rank runs, from their journals and weights."""

from __future__ import annotations

import argparse
from pathlib import Path

from aiperf.cli.arguments import DATA_ROOT, add_allowed, data_root
from aiperf.report.figures import RANKED

DESCRIPTION = """Ranks runs by a figure, with one order for each benchmark. The figures are computed from the journals, and
their hash chains are checked. A journal that cannot be read is listed with the reason. dataset.root=FOLDER
evaluates the weights that show the qualities (data sets without files ignore the folder). Of a submission
(NAME.aiperf.tar.gz) the checksums are checked and the log is read. `inspect` checks its signature.
Exit status: 0 all runs are ranked, 1 some are not, 2 none is."""
EXAMPLES = (
    "runs",
    "runs/20261121-120000-digits runs/20261122-090000-digits --by regulated",
    "submissions --out list dataset.root=/data/imagenet",
    "submissions --announcements site/announcements.jsonl --allowed allowed_signers --json",
    "submissions --images 1f0c…  (64 digits)",
)
OPTIONS = DATA_ROOT


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="a run's folder, a submission, or a folder with such below it"
    )
    parser.add_argument(
        "--by",
        metavar="METRIC",
        default="score",
        help="figure of the order (default: score): one of " + ", ".join(RANKED),
    )
    parser.add_argument(
        "--announcements",
        metavar="LOG",
        action="append",
        default=[],
        help="announcement log of a site. A run of the ranking has no place without it; may be repeated",
    )
    add_allowed(parser, "a run of the ranking has no place without it, since another site must have given its nonce")
    parser.add_argument("--images", metavar="HASH", help="contents of the images that a run with a place must have")
    parser.add_argument("--out", metavar="DIR", help="write rank.html, rank.csv and rank.json there")
    parser.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.cli.output import print_lines
    from aiperf.errors import NoSuchRun, explained
    from aiperf.leaderboard.entry import ranking_figure
    from aiperf.leaderboard.leaderboard import (
        first_lines,
        leaderboard,
        pinned,
        read_entries,
        read_logs,
        runs_under,
        with_announcements,
        with_quality,
        with_submitted_logs,
    )
    from aiperf.leaderboard.list_files import json_text, lines, write
    from aiperf.progress import steps

    by, logs = ranking_figure(arguments.by), read_logs(arguments.announcements)
    folders, fruitless = runs_under(arguments.runs)
    entries, unread = read_entries(folders)
    if not entries:
        reasons = "; ".join(f"'{each.folder}': {each.reason}" for each in [*fruitless, *unread])
        raise NoSuchRun(f"no run is readable: {reasons}. Name the folder of a run")
    firsts, root = first_lines(entries), data_root("rank", options)
    logs = with_submitted_logs(logs, [Path(entry.folder) for entry in entries], fruitless)
    pairs = steps("weights", [*zip(entries, firsts, strict=True)])
    entries = [with_quality(entry, first, root) for entry, first in pairs]
    entries, sites = with_announcements(pinned(entries, arguments.images), firsts, logs, arguments.allowed)
    ranking = leaderboard(entries, [*fruitless, *unread], by, sites)
    if arguments.json:
        print(json_text(ranking), end="")
    else:
        print_lines(lines(ranking))
    if arguments.out is not None:
        with explained(arguments.out, "cannot be written", "Choose another folder: --out DIR"):
            written = write(ranking, Path(arguments.out))
        if not arguments.json:
            print("\n" + "\n".join(f"written: {path}" for path in written))
    return 1 if ranking.unread else 0
