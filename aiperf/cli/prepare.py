"""`python -m aiperf prepare`: checks a data set before a run depends on it, and packs it into shards."""

from __future__ import annotations

import argparse
from pathlib import Path

from aiperf.errors import BadConfiguration

DESCRIPTION = """Checks a data set: counts, classes, every image decoded, SHA-256 of each file written beside it
(aiperf-checksums.jsonl). Killed, it goes on where it was. With --pack the images are packed into
WebDataset shards, for dataset.format=webdataset."""
EXAMPLES = (
    "dataset=imagenet dataset.root=/data/imagenet",
    "dataset=imagenet dataset.root=/data/imagenet --pack /data/imagenet-shards",
)
OPTIONS = "dataset=NAME [OPTION=VALUE …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to write."""
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="pack the images that are whole into shards there")
    parser.add_argument(
        "--checksums", type=Path, metavar="FILE", help="write checksums there (default: beside the images)"
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints what was found; gives the exit status: 1 where a run would refuse the set."""
    if not options:
        raise BadConfiguration("prepare takes a data set: dataset=NAME dataset.root=FOLDER; found none")
    from rich.console import Console

    from aiperf.config import configure

    conf = configure(options).dataset
    from aiperf.data.verification import prepare  # loads the decoders, and torch with them

    report = prepare(conf, pack=arguments.pack, out=Console(), checksums=arguments.checksums)
    for line in report.lines:
        print(line)
    return 0 if report.is_usable else 1
