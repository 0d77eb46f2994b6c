"""`python -m aiperf verify`: recompute a run from its journal and report contradictions."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiperf.cli.arguments import DATA_ROOT, add_json, add_number, data_root
from aiperf.cli.output import print_result
from aiperf.cli.verbs.rules import quality
from aiperf.page.section import Cell, Paragraph, Part, rows

if TYPE_CHECKING:
    from aiperf.drive.retrained import RetrainedTrial
    from aiperf.verify import CheckResult, Verification

DESCRIPTION = """Verifies a run from its journal: recomputes hashes, times, decisions, architectures, operation counts,
proposals, epochs, images, rates and the score. No accelerator is needed. Then it evaluates the weights that
show the quality, as `quality` does, if the journal has their SHA-256. --retrain trains trials of a list
again. Exit status: 0 no contradiction, 1 a contradiction or another quality, 2 the journal cannot be read, or
the weights cannot be evaluated."""
EXAMPLES = (
    "runs/20261121-120000-digits",
    "runs/20261121-120000-imagenet --all dataset.root=/data/imagenet",
    "runs/20261121-120000-imagenet --no-weights --json",
)
OPTIONS = DATA_ROOT
SHOWN = 5
"""Number of printed findings per check. --json has all stored findings."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run's folder, its name under runs/, or a journal file")
    parser.add_argument("--all", action="store_true", help="recompute every proposal, not a sample")
    add_number(parser, "--sample", "proposals to recompute", least=0, default_in_words="50")
    parser.add_argument("--followed", metavar="RUN", help="the run whose trials this run trained (follow=RUN)")
    add_number(parser, "--retrain", "trials of a list (follow=) to train again on this machine", least=1)
    parser.add_argument("--no-weights", action="store_true", help="check the journal alone, without its weights")
    add_json(parser)


def execute(arguments: argparse.Namespace, options: list[str]) -> int:
    from contextlib import suppress
    from pathlib import Path

    from aiperf.errors import AiperfError, BadConfiguration
    from aiperf.journal.events import RunStarted
    from aiperf.journal.journal import read
    from aiperf.submission.submitted_runs import is_submission, run_folder
    from aiperf.verify import verify
    from aiperf.verify.verification import DEFAULT

    # not in add_arguments: --help would import the verification
    sample = DEFAULT if arguments.sample is None else arguments.sample
    path = Path(arguments.run)
    followed = None if arguments.followed is None else run_folder(arguments.followed)
    run = path if path.is_file() and not is_submission(path) else run_folder(arguments.run)
    first = None
    with suppress(AiperfError):  # damage is a finding
        first = next(iter(read(run if run.is_dir() else run.parent)), None)
    if followed is not None and isinstance(first, RunStarted) and first.follows is None:
        raise BadConfiguration(f"--followed is for a run with follow=RUN, but {first.run!r} follows none: leave it out")
    verification = verify(run, None if arguments.all else sample, followed)
    root, audited = data_root("verify", options), None
    retrained: tuple[RetrainedTrial, ...] = ()
    try:
        if verification.is_sound and verification.has_seals and not arguments.no_weights:
            from aiperf.verify.quality import audit  # imports torch

            audited = audit(run, root)
        if verification.is_sound and arguments.retrain is not None:
            from aiperf.drive.retrained import retrain  # imports torch

            retrained = retrain(run, arguments.retrain, followed)
    finally:
        shown = (Paragraph("quality not shown"),) if audited is None else quality.parts(audited)
        judged: dict[str, Any] = {
            "is_sound": verification.is_sound,
            "quality": None if audited is None else quality.facts(audited),
        }
        judged["retrained"] = [asdict(each) | {"is_confirmed": each.is_confirmed} for each in retrained]
        again = () if not retrained else (_retrained(retrained),)
        print_result(
            "aiperf-verification", asdict(verification) | judged, (*parts(verification), *shown, *again), arguments
        )
    is_confirmed = (audited is None or audited.is_confirmed) and all(each.is_confirmed for each in retrained)
    return 0 if verification.is_sound and is_confirmed else 1


def _retrained(retrained: Sequence[RetrainedTrial]) -> Part:
    cells = [
        (
            str(each.place),
            f"{each.journal.loss:.4f}",
            f"{each.again.loss:.4f}",
            "ok" if each.is_confirmed else "NO",
            f"{each.again.samples_per_second / each.journal.samples_per_second:.3f}",
        )
        for each in retrained
    ]
    heads = (">trial of the list", ">loss in the journal", ">again", "", ">rate here ÷ there")
    footnote = (
        "training loss of the first epoch, which may differ by 5 %. The rate is that of this machine and is not judged"
    )
    return rows("retrained", "trained again", heads, cells, footnote)


def parts(verification: Verification) -> tuple[Part, ...]:
    """Return the checks with their counts and at most 5 findings each, what was not checked, and the verdict."""
    from aiperf.units import flops_per_second

    figure = verification.score.flops_per_second if verification.score is not None else None
    named = "" if figure is None else f" · score {flops_per_second(figure)}"
    sampled = verification.sample and any(each.name == "proposals" and each.examined for each in verification.checks)
    sample = f"sample of proposals recomputed, chosen by the journal's last hash, {verification.chain[:16]}…"
    sound = "no contradictions; docs/ranking.md explains what this proves and what it does not"
    checks = [
        (_mark(each), each.name, Cell(_counted(each), unfolds=tuple(_findings(each)))) for each in verification.checks
    ]
    caption = f"{verification.run or verification.path}: {verification.lines} lines{named}"
    return (
        rows("checks", caption, ("", "check", "examined"), checks, sample if sampled else ""),
        Paragraph(sound if verification.is_sound else f"contradictions: {verification.contradictions}"),
    )


def _findings(check: CheckResult) -> Iterator[str]:
    for finding in check.findings[:SHOWN]:
        where = "" if finding.line is None else f"line {finding.line}: "
        unsure = "" if finding.certainty == "contradiction" else " (cannot be determined)"
        yield f"{where}{finding.found}{unsure}. Rule: {finding.law}"
    more = check.contradictions + check.untold - min(SHOWN, len(check.findings))
    if more > 0:
        yield f"and {more} more"
    if check.not_checked is not None:
        yield f"not checked: {check.not_checked}"


def _mark(check: CheckResult) -> str:
    if check.contradictions:
        return "NO"
    return " ?" if check.untold else "ok" if check.examined else " -"


def _counted(check: CheckResult) -> str:
    of = "" if check.of is None or check.of == check.examined else f" of {check.of}"
    unit = re.sub(r"s\b", "", check.unit, count=1) if check.examined == 1 and not of else check.unit
    counts = f"{check.examined}{of} {unit}"
    if check.contradictions:
        counts += f", {check.contradictions} contradict"
    return counts + (f", {check.untold} could not be checked" if check.untold else "")
