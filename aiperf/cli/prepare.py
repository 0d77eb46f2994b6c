"""`python -m aiperf prepare`: checks a data set before a run depends on it, and packs it into shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from aiperf.config import configure
from aiperf.errors import BadConfiguration

USAGE = """usage: python -m aiperf prepare dataset=NAME dataset.root=FOLDER [OPTION=VALUE …] [--pack FOLDER] [--checksums FILE]

Checks a data set: counts, classes, every image decoded, SHA-256 of each file written beside it (aiperf-checksums.jsonl).
Killed, it goes on where it was. With --pack the images are packed into WebDataset shards, for dataset.format=webdataset.

examples:
  python -m aiperf prepare dataset=imagenet dataset.root=/data/imagenet
  python -m aiperf prepare dataset=imagenet dataset.root=/data/imagenet --pack /data/imagenet-shards"""


def main(words: Sequence[str]) -> int:
    """Carries the verb out; gives the exit status: 1 where a run would refuse the set."""
    rest = list(words)
    if not rest or "-h" in rest or "--help" in rest:
        print(USAGE)
        return 0 if rest else 2
    pack, checksums = _taken(rest, "--pack"), _taken(rest, "--checksums")
    conf = configure(rest).dataset
    from aiperf.data.verification import prepare  # loads the decoders, and torch with them

    report = prepare(conf, pack=pack, out=Console(), checksums=checksums)
    for line in report.lines:
        print(line)
    return 0 if report.is_usable else 1


def _taken(words: list[str], option: str) -> Path | None:
    """Takes an option with its value out of the words."""
    if option not in words:
        return None
    at = words.index(option)
    if at + 1 == len(words):
        raise BadConfiguration(f"{option} is followed by a path")
    value = words[at + 1]
    del words[at : at + 2]
    return Path(value)
