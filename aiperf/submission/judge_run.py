"""Judges one run of a submission: its journal, and everything beside it that must follow from the journal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from aiperf.errors import AiperfError
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import NAME as JOURNAL
from aiperf.journal.journal import read
from aiperf.ranking.breaches import breaches
from aiperf.report.candidate import candidate_of
from aiperf.report.facts import Report
from aiperf.report.write import report_of
from aiperf.submission.contents import (
    CONFIGURATION,
    PAGE,
    PARTS,
    REPORT,
    SYSTEM,
    TELEMETRY,
    Submission,
    SubmittedRun,
    configuration_of,
    system_of,
)
from aiperf.submission.differences import ABSENT, differences
from aiperf.submission.inspection import Finding, HeldTo, Outcome
from aiperf.system.source import COMMIT, SOURCE, digest, installed
from aiperf.verify import verify

TOLERANCE = 1e-9
"""Of figures that are worked out again on another machine; the score's own are exact."""
SHOWN = 5
EXACT = ("score.", "run.")
WORDS = ("score.warnings", "score.interval_basis")
"""Of these, what each release says in its own words."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One run, judged."""

    name: str
    first: RunStarted | None
    """None: the journal cannot be read."""
    ended_unix: float | None
    chain: str | None
    """SHA-256 of the journal's file."""
    findings: tuple[Finding, ...]


def judge_run(run: SubmittedRun, bundle: Path, submission: Submission, held_to: HeldTo) -> Judged:
    """`bundle`: the unpacked submission."""
    folder = bundle / run.folder
    missing = [name for name in PARTS if not (folder / name).is_file()]
    findings = [Finding("members", "bad", f"{run.folder}/{name} is missing", run.run) for name in missing]
    if JOURNAL in missing:
        return Judged(run.run, None, None, None, tuple(findings))
    with (folder / JOURNAL).open("rb") as file:
        chain = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        first, report = _read(folder)
        findings.append(Finding("journal", "good", f"{report.run.events} lines, hash-chained", run.run))
        for check in (
            _told(run, folder, first, report),
            _beside(run, folder, first, report, submission),
            _verified(run, folder, held_to),
            _of_source(run, first, held_to.source),
            _to_know(run, report),
            _of_rules(run, folder, report, held_to),
        ):
            findings += check
    except AiperfError as error:
        findings.append(Finding("journal", "bad", str(error), run.run))
        return Judged(run.run, None, None, chain, tuple(findings))
    except RecursionError:
        findings.append(Finding("journal", "bad", "values nested deeper than any run writes them", run.run))
        return Judged(run.run, None, None, chain, tuple(findings))
    return Judged(run.run, first, first.started_unix + report.run.end, chain, tuple(findings))


def _read(folder: Path) -> tuple[RunStarted, Report]:
    report = report_of(folder)
    first = next(iter(read(folder)))
    assert isinstance(first, RunStarted), "the report has read it"
    return first, report


def _verified(run: SubmittedRun, folder: Path, held_to: HeldTo) -> Iterator[Finding]:
    """Whether the journal can be true (aiperf.verify)."""
    found = verify(folder, held_to.sample)
    for each in found.findings:
        where = "" if each.line is None else f"line {each.line}: "
        outcome: Outcome = "bad" if each.certainty == "contradiction" else "note"
        yield Finding("verify", outcome, f"{each.check}: {where}{each.found}; law: {each.law}", run.run)
    if found.is_sound:
        again = f"{len(found.sample)} proposals made again" if found.sample else "no proposal made again"
        text = f"nothing in it contradicts itself; {len(found.checks)} checks, {again}"
        yield Finding("verify", "good", text, run.run)
    for check in found.checks:
        if check.not_checked is not None:
            yield Finding("verify", "note", f"{check.name}: not checked: {check.not_checked}", run.run)


def _told(run: SubmittedRun, folder: Path, first: RunStarted, report: Report) -> Iterator[Finding]:
    """What submission.json says of the run."""
    recorded = sorted((folder / TELEMETRY).glob("*.jsonl"))
    truly: dict[str, Any] = {
        "run": first.run,
        "simulated": first.simulated,
        "resumes": report.run.resumes,
        "telemetry": "included" if recorded else run.telemetry if run.telemetry != "included" else "missing",
        "source": {name: first.versions[name] for name in (SOURCE, COMMIT) if name in first.versions},
    }
    for name, value in truly.items():
        if getattr(run, name) != value:
            text = f"submission.json says {name} {getattr(run, name)!r}; the journal and its folder say {value!r}"
            yield Finding("submission", "bad", text, run.run)


def _beside(
    run: SubmittedRun, folder: Path, first: RunStarted, report: Report, submission: Submission
) -> Iterator[Finding]:
    """Files that follow from the journal, worked out again."""
    is_ours = submission.source.get(SOURCE) == digest(installed())
    for name, again in (
        (CONFIGURATION, configuration_of(first)),
        (SYSTEM, system_of(first, report)),
        (REPORT, report),
    ):
        if (folder / name).is_file():
            yield from _same(run.run, name, folder / name, again, is_ours=is_ours)


def _same(run: str, name: str, file: Path, again: object, *, is_ours: bool) -> Iterator[Finding]:
    """`is_ours`: the sources that made the file are those that run here, so that nothing may differ."""
    check = name.removesuffix(".json")
    try:
        told = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        yield Finding(check, "bad", f"{name} is no JSON ({error})", run)
        return
    differing = list(differences(told, json.loads(msgspec.json.encode(again)), tolerance=TOLERANCE))
    exact = [each for each in differing if _is_exact(name, *each)]
    if not is_ours:  # another release may say more, or less, and reckon otherwise what is no score
        differing = [each for each in differing if ABSENT not in each[1:]]
    bad = differing if is_ours else exact
    if not bad:
        yield Finding(check, "good", f"{name} says what the journal says", run)
    outcome: Outcome = "bad" if bad else "note"
    for at, there, here in (bad or differing)[:SHOWN]:
        by = "" if is_ours else " (another release made the file)"
        yield Finding(check, outcome, f"{name}: {at} is {there!r:.80}; from the journal it is {here!r:.80}{by}", run)
    if len(bad or differing) > SHOWN:
        yield Finding(check, outcome, f"{name}: {len(bad or differing) - SHOWN} more differ", run)


def _is_exact(name: str, at: str, there: object, here: object) -> bool:
    if name == CONFIGURATION:
        return True
    is_figure = at.startswith(EXACT) and not at.startswith(WORDS)
    return name == REPORT and is_figure and ABSENT not in (there, here)


def _of_source(run: SubmittedRun, first: RunStarted, source: Path | None) -> Iterator[Finding]:
    told = first.versions.get(SOURCE)
    if told is None:
        yield Finding("source", "note", "the journal does not say which sources its driver ran", run.run)
        return
    root = source or installed()
    where = "that run here" if source is None else f"in '{source}'"
    if told == digest(root):
        yield Finding("source", "good", f"the sources are those {where}: {told[:12]}…", run.run)
        return
    commit = first.versions.get(COMMIT)
    of = "no commit is named" if commit is None else f"commit {commit}"
    text = f"the sources are not those {where}: {told[:12]}…, {of}"
    if source is not None:
        yield Finding("source", "bad", text, run.run)
    else:
        yield Finding("source", "note", f"{text}; --source FOLDER, a checkout of it, would tell", run.run)


def _to_know(run: SubmittedRun, report: Report) -> Iterator[Finding]:
    facts = report.run
    if facts.is_simulated:
        yield Finding("run", "note", "simulated: no machine did this work", run.run)
    if facts.resumes:
        yield Finding("run", "note", f"resumed {facts.resumes} times", run.run)
    if facts.end_reason != "duration":
        yield Finding(
            "run", "note", f"not run to its declared end: {facts.end_reason or 'no end in the journal'}", run.run
        )
    if run.telemetry != "included":
        yield Finding("run", "note", f"telemetry: {run.telemetry}; nothing of it can be checked", run.run)
    yield Finding(
        "report", "note", f"{PAGE} is not judged: `python -m aiperf report` makes it from the journal", run.run
    )


def _of_rules(run: SubmittedRun, folder: Path, report: Report, held_to: HeldTo) -> Iterator[Finding]:
    if held_to.division is None:
        if report.breaches:
            yield Finding("rules", "note", f"outside the ranking: {len(report.breaches)} rules are broken", run.run)
        else:
            yield Finding("rules", "good", "no rule of the ranking is broken", run.run)
        return
    name = held_to.division.name
    broken = breaches(candidate_of(read(folder)), held_to.division)
    for breach in broken:
        where = "" if breach.line is None else f" (line {breach.line})"
        yield Finding("rules", "bad", f"{name}: {breach.rule}; found{where}: {breach.found}", run.run)
    if not broken:
        yield Finding("rules", "good", f"no rule of division {name} is broken", run.run)
