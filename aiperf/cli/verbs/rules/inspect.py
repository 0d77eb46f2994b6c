"""`python -m aiperf inspect`: check a submission (bundle of runs) as its receiver."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from aiperf.cli.arguments import DATA_ROOT, add_allowed, add_json, add_number, data_root
from aiperf.cli.output import print_result
from aiperf.files import given_path
from aiperf.page.section import Paragraph, Part, rows
from aiperf.units import counted

if TYPE_CHECKING:
    from aiperf.submission.inspect_run import Inspection

DESCRIPTION = """Checks submissions: checksums, signature, announcements, and the journal of each run. With dataset.root=FOLDER
it also evaluates the weights of NAME.weights beside the file (data sets without files ignore the folder).
Exit status: 0 nothing bad was found, 1 something bad was found, 2 a submission could not be checked."""
OPTIONS = DATA_ROOT
EXAMPLES = (
    "20261121-120000-imagenet.aiperf.tar.gz --allowed allowed_signers",
    "site.aiperf.tar.gz dataset.root=/data/imagenet --json",
    "site.aiperf.tar.gz --source ~/aiperf-at-the-commit",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundles", metavar="BUNDLE", nargs="+", help="file of a submission")
    add_allowed(parser, "an unsigned submission is then bad")
    parser.add_argument(
        "--source",
        type=given_path,
        metavar="FOLDER",
        help="checkout of the sources that the runs name (default: this one)",
    )
    parser.add_argument(
        "--division",
        metavar="NAME|FILE",
        help="rules that each run must meet (`check`); default: breaches of the ranking's rules are only counted",
    )
    parser.add_argument("--all", action="store_true", help="recompute every proposal (verify), not a sample")
    add_number(parser, "--most-bytes", "largest unpacked size", least=1, default_in_words="16 GiB")
    add_json(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from aiperf.cli.verbs.rules.check import known_options
    from aiperf.errors import explained
    from aiperf.ranking.division import division
    from aiperf.submission.archive import MOST_BYTES
    from aiperf.submission.inspect_run import Requirements
    from aiperf.submission.inspect_submission import inspect_all
    from aiperf.verify.verification import DEFAULT

    requirements = Requirements(
        signers=arguments.allowed,
        source=arguments.source,
        division=None if arguments.division is None else division(arguments.division, known_options()),
        sample=None if arguments.all else DEFAULT,
        most_bytes=MOST_BYTES if arguments.most_bytes is None else arguments.most_bytes,
        root=data_root("inspect", options),
    )
    with explained(" ".join(arguments.bundles), "cannot be read or unpacked", "Correct the name, or copy it again"):
        inspections = inspect_all([given_path(word) for word in arguments.bundles], requirements)
    facts = {"submissions": [asdict(each) | {"is_good": each.is_good} for each in inspections]}
    print_result("aiperf-inspection", facts, [part for each in inspections for part in parts(each)], arguments)
    return 0 if all(each.is_good for each in inspections) else 1


def parts(inspection: Inspection) -> tuple[Part, ...]:
    """Return the findings of an inspection and its verdict."""
    is_one = len(inspection.runs) <= 1
    findings = [
        (each.outcome, each.check, each.text if each.run is None or is_one else f"{each.run}: {each.text}")
        for each in inspection.findings
    ]
    bad = sum(finding.outcome == "bad" for finding in inspection.findings)
    runs = counted(len(inspection.runs), "run")
    verdict = "nothing bad found" if inspection.is_good else f"BAD: {counted(bad, 'finding')}"
    text = Paragraph(f"{inspection.path}: {runs}; {verdict}")
    return rows("findings", "", ("", "check", "finding"), findings), text
