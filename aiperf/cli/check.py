"""`python -m aiperf check`: a run held to the rules of a division, every breach at once, from its journal alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

if TYPE_CHECKING:
    from aiperf.ranking.breaches import Judgement
    from aiperf.ranking.candidate import Candidate
    from aiperf.ranking.division import Division

DESCRIPTION = (
    "Holds a run to the rules of a division, from its journal alone. Every rule that is broken, or of which it\n"
    "cannot be determined, is printed with its source, what was found, the journal's line that shows it, and what\n"
    "would fix it. Exit status: 0 the run is valid, 1 it is not, 2 it could not be judged (no such run, a damaged\n"
    "journal, no such division)."
)
EXAMPLES = (
    "runs/20261121-120000-imagenet",
    "runs/20261121-120000-digits --division quick --junit check.xml",
    "runs/20261121-120000-digits --division our-rules.yaml --json",
)
OPTIONS = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, which rules, and how to show what came of them."""
    parser.add_argument("run", metavar="RUN", help="a run's folder, or its name under runs/")
    parser.add_argument(
        "--division",
        default="ranking",
        metavar="NAME|FILE",
        help="ranking (the default), quick, or a YAML file of rules like aiperf/ranking/divisions/ranking.yaml",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="write a report for CI systems as well (JUnit's XML)"
    )


def carry_out(arguments: argparse.Namespace, options: list[str]) -> int:
    """Prints what came of the rules; gives the exit status."""
    from aiperf.cli.program import tell
    from aiperf.errors import BadConfiguration
    from aiperf.journal.journal import read
    from aiperf.journal.run_folder import run_folder
    from aiperf.plain import plain
    from aiperf.ranking.breaches import judgements
    from aiperf.ranking.division import division
    from aiperf.report.candidate import candidate_of
    from aiperf.whole_files import write_named

    held_to = division(arguments.division, known_options())
    folder = run_folder(arguments.run)
    reader = read(folder)
    run = candidate_of(reader)
    judged, torn = judgements(run, held_to), reader.reading.warning
    if arguments.junit is not None:
        try:
            write_named(arguments.junit, junit(folder.name, held_to, judged))
        except OSError as error:
            raise BadConfiguration(
                f"--junit names a file that can be written; found '{arguments.junit}' ({error.strerror})"
            ) from error
    if arguments.json:
        print(
            json.dumps(as_json(folder.name, held_to, judged) | {"warnings": [asdict(torn)] if torn else []}, indent=2)
        )
    else:
        for line in _lines(folder.name, held_to, judged, run):
            tell(plain(line))
        if torn is not None:
            tell("\n".join(f"  {line}" for line in torn.lines))
    return 0 if is_valid(judged) else 1


def known_options() -> Collection[str]:
    """What a file of rules may name: every option, what a plan works out of them, and whole parts."""
    from aiperf.config import option_names
    from aiperf.ranking.division import BUILT_IN, division

    worked_out = {name for each in BUILT_IN for name in division(each).options() if name.startswith("space.")}
    named = {f"{part}.name" for each in BUILT_IN for part in division(each).chosen}
    names = {*option_names(), *worked_out, *named}
    return sorted(names | {name.partition(".")[0] for name in names})


def is_valid(judged: Sequence[Judgement]) -> bool:
    """Whether no rule is broken, and none is unknown."""
    return all(each.breach is None for each in judged)


def as_json(run: str, held_to: Division, judged: Sequence[Judgement]) -> dict[str, object]:
    """What --json prints. `rules` has what came of each; `breaches` those that keep the run out."""
    return {
        "run": run,
        "division": held_to.name,
        "is_valid": is_valid(judged),
        "rules": {each.rule.id: each.outcome for each in judged},
        "breaches": [
            asdict(each.breach) | {"law": f"{each.rule.about}: {each.rule.law}"}
            for each in judged
            if each.breach is not None
        ],
    }


def junit(run: str, held_to: Division, judged: Sequence[Judgement]) -> bytes:
    """A test suite with a case for each rule.

    A broken rule is a failure: it was looked at, and is not kept. An unknown one is an error: it could not be looked at. Both
    turn a build red. What is no matter of this run is skipped.
    """
    # Characters that no XML may have, escaped or not, were said by whoever wrote the journal.
    from aiperf.plain import plain_lines

    counted = [each.outcome for each in judged]
    name = plain_lines(f"aiperf check --division {held_to.name} {run}")
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", name=name, time="0")
    suite.set("failures", str(counted.count("broken")))
    suite.set("errors", str(counted.count("unknown")))
    suite.set("skipped", str(counted.count("not looked at")))
    suite.set("tests", str(len(judged)))
    for each in judged:
        case = ElementTree.SubElement(
            suite, "testcase", classname=plain_lines(f"aiperf.{held_to.name}"), name=plain_lines(each.rule.id), time="0"
        )
        if each.outcome == "not looked at":
            ElementTree.SubElement(case, "skipped")
        if each.breach is not None:
            kind = "error" if each.breach.is_unknown else "failure"
            told = ElementTree.SubElement(
                case, kind, type=each.outcome, message=plain_lines(f"{each.breach.rule}; found: {each.breach.found}")
            )
            told.text = plain_lines("\n".join(_of_one(each)))
    ElementTree.indent(suites)
    text = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _of_one(judged: Judgement) -> list[str]:
    breach = judged.breach
    assert breach is not None
    where = "the whole of the journal" if breach.line is None else f"line {breach.line} of the journal"
    return [
        f"{breach.id}: {breach.rule} [{', '.join(breach.source)}]",
        f"  found: {breach.found} ({where})",
        f"  to fix it: {breach.remedy}",
    ]


def _lines(run: str, held_to: Division, judged: Sequence[Judgement], candidate: Candidate) -> list[str]:
    broken = [each for each in judged if each.outcome == "broken"]
    unknown = [each for each in judged if each.outcome == "unknown"]
    left_out = sum(each.outcome == "not looked at" for each in judged)
    verdict = "valid" if is_valid(judged) else f"not valid: {len(broken)} broken, {len(unknown)} unknown"
    lines = [f"{run} by the rules of {held_to.name!r} ({held_to.title}): {verdict}, of {len(judged)} rules"]
    for each in (*broken, *unknown):
        lines += [f"  {line}" for line in _of_one(each)]
    if left_out:
        why = "a simulated run invents what came of it" if candidate.is_simulated else "they are of another choice"
        lines.append(f"  {left_out} rules were not looked at: {why}")
    return lines
