"""`python -m aiperf prepare`: checks a data set before a run depends on it, and packs it into shards."""

from __future__ import annotations

import argparse
from pathlib import Path

from aiperf.cli.program import tell
from aiperf.errors import BadConfiguration

DESCRIPTION = """Checks a data set: counts, classes, every image decoded, SHA-256 of each file written beside it
(aiperf-checksums.jsonl), and an index of its class folders, which runs read instead of listing them
(aiperf-folders.index). Killed, it goes on where it was. With --index-only no image is read. With --pack the
images are packed into WebDataset shards, for dataset.format=webdataset."""
EXAMPLES = (
    "dataset=imagenet dataset.root=/data/imagenet",
    "dataset=imagenet dataset.root=/data/imagenet --index-only",
    "dataset=imagenet dataset.root=/data/imagenet --pack /data/imagenet-shards",
)
OPTIONS = "dataset=NAME [OPTION …]"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to write."""
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="pack the images that are whole into shards there")
    parser.add_argument(
        "--checksums", type=Path, metavar="FILE", help="write checksums there (default: beside the images)"
    )
    parser.add_argument(
        "--index-only", action="store_true", help="write the index of the class folders, and read no image"
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints what was found; gives the exit status: 1 where a run would refuse the set."""
    if not options:
        raise BadConfiguration("prepare takes a data set: dataset=NAME dataset.root=FOLDER; found none")
    from aiperf.config import configure

    conf = configure(options).dataset
    if arguments.index_only:
        if arguments.pack is not None or arguments.checksums is not None:
            raise BadConfiguration(
                "--index-only reads no image: nothing is packed or checked; leave --pack and --checksums out"
            )
        from aiperf.data.survey import write_index

        for line in write_index(conf):
            tell(line)
        return 0
    from rich.console import Console

    from aiperf.data.verification import prepare  # loads the decoders, and torch with them

    report = prepare(conf, pack=arguments.pack, out=Console(), checksums=arguments.checksums)
    for line in report.lines:
        tell(line)
    return 0 if report.is_usable else 1
