"""Inspection of one run of a submission by its receiver, and the types of its result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from aiperf.errors import AiperfError, OtherRules
from aiperf.files import sha256_of
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import NAME as JOURNAL
from aiperf.journal.journal import read
from aiperf.ranking.breaches import breaches
from aiperf.ranking.division import Division
from aiperf.report.candidate import candidate_of
from aiperf.report.facts import Report
from aiperf.report.nodes import beside_kept
from aiperf.report.write import recomputed
from aiperf.submission.announced_run import Announced
from aiperf.submission.archive import MOST_BYTES, PAGE, SubmittedRun, recorded
from aiperf.system.source import COMMIT, SOURCE, digest, installed
from aiperf.train.checkpoints.checkpoint_files import CHECKPOINTS, sealed_file
from aiperf.verify import verify
from aiperf.verify.verification import DEFAULT

Outcome = Literal["good", "bad", "note"]
"""'bad': impossible in an honest submission of these runs. 'note': important for the reader, or not checkable."""
SignedBy = Literal["good", "unsigned", "unknown key", "bad signature", "not checked"]
"""'unknown key': valid, but the key is not among the allowed signers."""


@dataclass(frozen=True, slots=True)
class Requirements:
    signers: Path | None = None
    """File of allowed signers (`read_allowed`). Default: any key may sign."""
    source: Path | None = None
    """Checkout of the runs' sources. Default: the sources of this installation."""
    sample: int | None = DEFAULT
    """Number of recomputed proposals per run. None for all."""
    division: Division | None = None
    """Class of the ranking (division) with rules that each run must keep."""
    most_bytes: int = MOST_BYTES
    """Largest unpacked size in bytes."""
    root: str | None = None
    """Folder of the images (dataset.root) on which the weights are evaluated. None: they are only compared with the journal."""


@dataclass(frozen=True, slots=True)
class InspectionFinding:
    check: str
    outcome: Outcome
    text: str
    run: str | None = None
    """Name of the run. None for the whole submission."""


@dataclass(frozen=True, slots=True)
class Inspection:
    path: str
    sha256: str
    """SHA-256 of the file."""
    signature: SignedBy | None = None
    """Result of the check of the signature. None if the submission was rejected before that check."""
    key: str | None = None
    """Fingerprint of the key that signed the submission. None if there is none."""
    signers: tuple[str, ...] = ()
    """Owners of the key in the list of allowed signers."""
    release: str | None = None
    """Release that created the submission."""
    runs: tuple[str, ...] = ()
    announced: Announced | None = None
    """Comparison of announced and submitted runs. None without a log of announcements."""
    findings: tuple[InspectionFinding, ...] = ()
    used: tuple[tuple[str, str, str], ...] = ()
    """Announcements of the runs: id, run and SHA-256 of the journal."""

    @property
    def is_good(self) -> bool:
        """True if no finding is bad. Findings that are notes do not count."""
        return all(finding.outcome != "bad" for finding in self.findings)


@dataclass(frozen=True, slots=True)
class RunInspection:
    name: str
    first: RunStarted | None
    """First line of the journal. None if the journal cannot be read."""
    ended_unix: float | None
    chain: str | None
    """SHA-256 of the journal file."""
    findings: tuple[InspectionFinding, ...]
    folder: Path


def judge_run(run: SubmittedRun, folder: Path, requirements: Requirements) -> RunInspection:
    """Inspect one run of a submission: journal, recomputed proposals, source code and rules."""
    if not (folder / JOURNAL).is_file():
        finding = InspectionFinding("members", "bad", f"{JOURNAL} is missing", run.run)
        return RunInspection(run.run, None, None, None, (finding,), folder)
    findings: list[InspectionFinding] = []
    chain = sha256_of(folder / JOURNAL)
    try:
        first, report = _read(folder)
        findings.append(InspectionFinding("journal", "good", f"{report.run.events} lines, hash-chained", run.run))
        for check in (
            _of_listing(run, folder, first),
            _verified(folder, requirements),
            _of_source(first, requirements.source),
            _to_know(run, report),
            _of_rules(folder, report, requirements),
        ):
            findings += (replace(finding, run=run.run) for finding in check)
    except (AiperfError, RecursionError) as error:
        why = str(error) if isinstance(error, AiperfError) else "values nested deeper than in any run"
        findings.append(InspectionFinding("journal", "bad", why, run.run))
        return RunInspection(run.run, None, None, chain, tuple(findings), folder)
    if all(finding.outcome != "bad" for finding in findings):
        outcome, text = _of_quality(folder, report, requirements.root)
        findings.append(InspectionFinding("quality", outcome, text, run.run))
    return RunInspection(run.run, first, first.started_unix + report.run.end, chain, tuple(findings), folder)


def _read(folder: Path) -> tuple[RunStarted, Report]:
    report = recomputed(folder)
    first = next(iter(read(folder)))
    assert isinstance(first, RunStarted), "the report has read it"
    return first, report


def _verified(folder: Path, requirements: Requirements) -> Iterator[InspectionFinding]:
    try:
        verification = verify(folder, requirements.sample)
    except OtherRules as error:
        yield InspectionFinding("verify", "bad", str(error))
        return
    for each in verification.findings:
        where = "" if each.line is None else f"line {each.line}: "
        outcome: Outcome = "bad" if each.certainty == "contradiction" else "note"
        yield InspectionFinding("verify", outcome, f"{each.check}: {where}{each.found}. Rule: {each.law}")
    if verification.is_sound:
        again = f"{len(verification.sample)} proposals recomputed" if verification.sample else "no proposal recomputed"
        text = f"no contradictions. {len(verification.checks)} checks, {again}"
        yield InspectionFinding("verify", "good", text)
    for check in verification.checks:
        if check.not_checked is not None:
            yield InspectionFinding("verify", "note", f"{check.name}: not checked: {check.not_checked}")


def _of_listing(run: SubmittedRun, folder: Path, first: RunStarted) -> Iterator[InspectionFinding]:
    """Check the run's fields in submission.json."""
    has_samples = bool(recorded(folder))
    if run.run != first.run:
        text = f"submission.json has run {run.run!r}, but the journal has {first.run!r}"
        yield InspectionFinding("submission", "bad", text)
    if has_samples != (run.telemetry == "included"):
        text = f"submission.json has telemetry {run.telemetry!r}, but the folder has {'samples' if has_samples else 'none'}"
        yield InspectionFinding("submission", "bad", text)


def _of_source(first: RunStarted, source: Path | None) -> Iterator[InspectionFinding]:
    recorded = first.versions.get(SOURCE)
    if recorded is None:
        yield InspectionFinding("source", "note", "the journal does not record its driver's sources")
        return
    root = source or installed()
    where = "of this installation" if source is None else f"in '{source}'"
    if recorded == digest(root):
        yield InspectionFinding("source", "good", f"the sources are those {where}: {recorded[:12]}…")
        return
    commit = first.versions.get(COMMIT)
    of = "no commit is named" if commit is None else f"commit {commit}"
    text = f"the sources are not those {where}: {recorded[:12]}…, {of}"
    if source is not None:
        yield InspectionFinding("source", "bad", text)
    else:
        yield InspectionFinding("source", "note", f"{text}. Check them with --source FOLDER, a checkout of it")


def _to_know(run: SubmittedRun, report: Report) -> Iterator[InspectionFinding]:
    facts = report.run
    if facts.is_simulated:
        yield InspectionFinding("run", "note", "simulated: no machine did this work")
    if facts.resumes:
        yield InspectionFinding("run", "note", f"resumed {facts.resumes} times")
    if facts.end_reason != "duration":
        yield InspectionFinding(
            "run", "note", f"not run to its declared end: {facts.end_reason or 'no end in the journal'}"
        )
    for text in beside_kept(report.nodes):
        yield InspectionFinding("run", "note", f"excluded: {text}")
    if run.telemetry != "included":
        yield InspectionFinding("run", "note", f"telemetry: {run.telemetry}. It cannot be checked")
    yield InspectionFinding(
        "report", "note", f"{PAGE} is not checked: `python -m aiperf report` writes it from the journal"
    )


def _of_quality(folder: Path, report: Report, root: str | None) -> tuple[Outcome, str]:
    if report.weights is None:
        return "note", "not shown: the journal has no SHA-256 of the checkpoint of the epoch that counts"
    if not (folder / CHECKPOINTS).is_dir():
        return "note", "not shown: its weights are not beside the submission"
    if sealed_file(folder, report.weights) is None:
        return "bad", f"its weights have another SHA-256 than {report.weights.sha256} in the journal"
    if root is None:
        return "note", "its weights are those in the journal. Evaluate them with dataset.root=FOLDER"
    from aiperf.verify.quality import difference  # imports torch

    fault = difference(folder, report.run.config, root)
    return ("bad", fault) if fault else ("good", "its weights have the quality in the journal")


def _of_rules(folder: Path, report: Report, requirements: Requirements) -> Iterator[InspectionFinding]:
    if requirements.division is None:
        if report.breaches:
            yield InspectionFinding("breaches", "note", f"outside the ranking: {len(report.breaches)} rules are broken")
        else:
            yield InspectionFinding("breaches", "good", "no rule of the ranking is broken")
        return
    name = requirements.division.name
    broken = breaches(candidate_of(read(folder)), requirements.division)
    for breach in broken:
        where = "" if breach.line is None else f" (line {breach.line})"
        yield InspectionFinding("breaches", "bad", f"{name}: {breach.rule}, but found{where}: {breach.found}")
    if not broken:
        yield InspectionFinding("breaches", "good", f"no rule of the {requirements.division.words} is broken")
