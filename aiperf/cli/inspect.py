"""`python -m aiperf inspect`: a submission as its receiver judges it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from aiperf.cli.numbers import add_number
from aiperf.cli.program import tell
from aiperf.plain import plain

if TYPE_CHECKING:
    from aiperf.submission.inspection import Inspection

DESCRIPTION = """Judges submissions: checksums, signature, announcements, each run's journal, and whether its report,
configuration and system description follow from it. Exit status 0: nothing bad was found; 1: something was;
2: it could not be judged."""
EXAMPLES = (
    "20261121-120000-imagenet.aiperf.tar.gz --allowed allowed_signers",
    "site.aiperf.tar.gz --json",
    "site.aiperf.tar.gz --source ~/aiperf-at-the-commit",
)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which files, and what they are held against."""
    parser.add_argument("bundles", metavar="BUNDLE", nargs="+", help="a submission's file")
    parser.add_argument(
        "--allowed", type=Path, metavar="FILE", help="who may sign: OpenSSH's allowed_signers; with it unsigned is bad"
    )
    parser.add_argument(
        "--source", type=Path, metavar="FOLDER", help="a checkout of the sources that the runs name; none: these here"
    )
    parser.add_argument(
        "--division",
        metavar="NAME|FILE",
        help="rules that each run must keep (`check`); none: the ranking's are counted",
    )
    parser.add_argument("--all", action="store_true", help="make every proposal again (verify), not a sample")
    add_number(parser, "--most-bytes", "what may be unpacked", least=1, default_in_words="16 GiB")
    parser.add_argument("--json", action="store_true", help="print JSON")


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Judges each; gives the exit status of the worst."""
    from aiperf.cli.check import known_options
    from aiperf.errors import BadConfiguration
    from aiperf.ranking.division import division
    from aiperf.submission.allowed import read_allowed
    from aiperf.submission.archive import MOST_BYTES
    from aiperf.submission.inspection import HeldTo
    from aiperf.submission.judge import inspect
    from aiperf.verify.sample import DEFAULT

    signers = None if arguments.allowed is None else read_allowed(arguments.allowed)
    held_to = HeldTo(
        signers=signers,
        source=arguments.source,
        division=None if arguments.division is None else division(arguments.division, known_options()),
        sample=None if arguments.all else DEFAULT,
        most_bytes=MOST_BYTES if arguments.most_bytes is None else arguments.most_bytes,
    )
    found = []
    for word in arguments.bundles:
        try:
            found.append(inspect(Path(word), held_to))
        except OSError as error:
            raise BadConfiguration(
                f"a submission is a file that can be read and unpacked; '{word}': {error}"
            ) from error
    if arguments.json:
        print(json.dumps([asdict(each) | {"is_good": each.is_good} for each in found], indent=2))
    else:
        for each in found:
            for line in lines(each):
                tell(line)
    return 0 if all(each.is_good for each in found) else 1


def lines(found: Inspection) -> Iterator[str]:
    """The findings, and the verdict, as a terminal may show them."""
    for finding in found.findings:
        of = f"{finding.run}: " if finding.run is not None and len(found.runs) > 1 else ""
        yield plain(f"  {finding.outcome:<4}  {finding.check:<13}  {of}{finding.text}")
    bad = sum(finding.outcome == "bad" for finding in found.findings)
    runs = f"{len(found.runs)} run{'' if len(found.runs) == 1 else 's'}"
    verdict = "nothing bad found" if found.is_good else f"BAD: {bad} finding{'' if bad == 1 else 's'}"
    yield plain(f"{found.path}: {runs}; {verdict}")
