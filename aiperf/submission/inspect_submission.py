"""Inspection of a submission file by its receiver. Everything that can be recomputed is recomputed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from aiperf.errors import AnnouncementsDamaged, BundleRefused
from aiperf.files import require_file, sha256_of
from aiperf.submission.announced_run import Announced, announced, nonce_fault, rivals
from aiperf.submission.announcements import Announcements, Signers, parse, signers_of
from aiperf.submission.archive import (
    ANNOUNCEMENTS,
    SUBMISSION,
    Submission,
    UnpackedSubmission,
    unpack_submission,
)
from aiperf.submission.inspect_run import (
    Inspection,
    InspectionFinding,
    Requirements,
    RunInspection,
    SignedBy,
    judge_run,
)
from aiperf.submission.signatures import principals, signing_key
from aiperf.submission.witnessed import witnessed
from aiperf.units import share


def inspect_all(paths: Sequence[Path], requirements: Requirements | None = None) -> list[Inspection]:
    inspections: list[Inspection] = []
    users: dict[str, tuple[str, str, str]] = {}
    whole = [_inspected(path, requirements or Requirements()) for path in paths]
    logs = {one.path: (log, until) for one, log, until in whole if log is not None}
    faults = rivals(logs)
    for one, *_ in whole:
        more = [InspectionFinding("announcements", "bad", faults[one.path])] if one.path in faults else []
        for wanted, run, journal in one.used:
            file, other, other_journal = users.setdefault(wanted, (one.path, run, journal))
            if file != one.path and journal != other_journal:
                text = f"announcement {wanted[:12]}… serves one run. {other} of {file} names it too"
                more.append(InspectionFinding("announced", "bad", text, run))
        inspections.append(replace(one, findings=(*one.findings, *more)))
    return inspections


def inspect(path: Path, requirements: Requirements | None = None) -> Inspection:
    """Inspect the submission in the file `path`, and return all findings."""
    return _inspected(path, requirements or Requirements())[0]


def _inspected(path: Path, requirements: Requirements) -> tuple[Inspection, Announcements | None, float]:
    require_file(path)
    sha256 = sha256_of(path)
    with tempfile.TemporaryDirectory(prefix="aiperf-inspect-") as scratch:
        folder = Path(scratch)
        try:
            unpacked, submission = unpack_submission(path, folder, requirements.most_bytes)
        except BundleRefused as error:
            inspection = Inspection(str(path), sha256, findings=(InspectionFinding("archive", "bad", str(error)),))
            return inspection, None, 0.0
        return _judged(str(path), sha256, folder, unpacked, submission, requirements)


def _judged(
    path: str,
    sha256: str,
    folder: Path,
    unpacked: UnpackedSubmission,
    submission: Submission,
    requirements: Requirements,
) -> tuple[Inspection, Announcements | None, float]:
    signers = requirements.signers
    runs = [judge_run(run, folder / f"runs/{number}", requirements) for number, run in enumerate(submission.runs, 1)]
    ended_unix = max((run.ended_unix for run in runs if run.ended_unix is not None), default=time.time())
    signed, key, names = _signature(unpacked, signers, ended_unix)
    log, by, of_log = _log(folder, submission, signers)
    firsts = [run.first for run in runs if run.first is not None]
    against = None if log is None else announced(log, firsts)
    inspection = Inspection(
        path=path,
        sha256=sha256,
        signature=signed,
        key=key,
        signers=names,
        release=submission.release,
        runs=tuple(run.run for run in submission.runs),
        announced=against,
        findings=(
            *_of_members(unpacked, submission),
            _of_signature(signed, key, signers),
            *of_log,
            *(finding for run in runs for finding in run.findings),
            *_of_announcements(runs, against, log, by),
            *_of_equal_runs(runs),
        ),
        used=tuple(_used(runs)),
    )
    ends = (first.started_unix if first.simulated else run.ended_unix for run in runs if (first := run.first))
    return inspection, log, max((end for end in ends if end is not None), default=0.0)


def _used(runs: list[RunInspection]) -> Iterator[tuple[str, str, str]]:
    for run in runs:
        if run.first is not None and run.chain is not None and run.first.config.get("announcement") is not None:
            yield str(run.first.config["announcement"]), run.name, run.chain


def _of_members(unpacked: UnpackedSubmission, submission: Submission) -> Iterator[InspectionFinding]:
    runs = {f"runs/{number}" for number in range(1, len(submission.runs) + 1)}
    for name in unpacked.names:
        if name.startswith("runs/") and "/".join(name.split("/")[:2]) not in runs:
            yield InspectionFinding(
                "members", "bad", f"{name} is of no run that {SUBMISSION} lists. It was not checked"
            )
    for name in unpacked.changed:
        yield InspectionFinding("checksums", "bad", f"{name} differs from the manifest: it was changed since")
    if not unpacked.changed:
        yield InspectionFinding("checksums", "good", f"{len(unpacked.names)} members agree with the manifest")


def _signature(
    unpacked: UnpackedSubmission, signers: Path | None, at_unix: float
) -> tuple[SignedBy, str | None, tuple[str, ...]]:
    if unpacked.signature is None:
        return "unsigned", None, ()
    key = signing_key(unpacked.signature, unpacked.manifest)
    if key is None:
        return "bad signature", None, ()
    if signers is None:
        return "not checked", key, ()
    names = principals(signers, unpacked.signature, unpacked.manifest, at_unix)
    return ("good" if names else "unknown key"), key, names


def _of_signature(signed: SignedBy, name: str | None, signers: Path | None) -> InspectionFinding:
    match signed:
        case "good":
            return InspectionFinding("signature", "good", f"signed by {name}, which is allowed to")
        case "not checked":
            return InspectionFinding(
                "signature", "note", f"signed by {name}. Check the owner of this key with --allowed FILE"
            )
        case "unsigned":
            return InspectionFinding(
                "signature", "note" if signers is None else "bad", "unsigned: its author is unknown"
            )
        case "unknown key":
            return InspectionFinding("signature", "bad", f"signed by {name}, which is not among the allowed signers")
        case "bad signature":
            return InspectionFinding("signature", "bad", "the signature in it is no Ed25519 signature of this manifest")


def _log(
    folder: Path, submission: Submission, signers: Path | None
) -> tuple[Announcements | None, Signers, tuple[InspectionFinding, ...]]:
    if not (folder / ANNOUNCEMENTS).is_file():
        return None, None, ()
    try:
        log = parse((folder / ANNOUNCEMENTS).read_bytes(), ANNOUNCEMENTS)
    except AnnouncementsDamaged as error:
        return None, None, (InspectionFinding("announcements", "bad", str(error)),)
    findings = []
    if log.head != submission.announcements:
        findings.append(InspectionFinding("announcements", "bad", f"{SUBMISSION} names another head than the log has"))
    by = None if signers is None else signers_of(log, signers)
    for each in log.entries:
        if by is not None and by.get(each.id) == ():
            fault = f"entry {each.entry.number} is signed by {each.key}, which is not among the allowed signers"
            findings.append(InspectionFinding("announcements", "bad", fault))
    return log, by, tuple(findings)


def _of_announcements(
    runs: list[RunInspection], against: Announced | None, log: Announcements | None, by: Signers
) -> Iterator[InspectionFinding]:
    check, firsts = "announced", [run.first for run in runs if run.first is not None]
    if against is None or log is None:
        for first in firsts:
            named = first.config.get("announcement")
            if named is not None:
                text = f"it names announcement {str(named)[:12]!r}…, but there is no readable log of announcements"
                yield InspectionFinding(check, "bad", text, first.run)
            else:
                yield InspectionFinding(check, "note", "not announced before it began", first.run)
        return
    for name, how in against.broken:
        yield InspectionFinding(check, "bad", f"not as announced: {'; '.join(how)}", name)
    for wanted, names in against.used_twice:
        text = f"announcement {wanted[:12]}… serves one run. {', '.join(names)} name it"
        yield InspectionFinding(check, "bad", text)
    for name, reason in against.withdrawn:
        yield InspectionFinding(check, "note", f"its announcement was withdrawn: {reason}", name)
    yield from _of_witnesses(runs, log, by)
    named_runs = {first.run for first in firsts if first.config.get("announcement") is not None}
    for name in against.unannounced:
        if name in named_runs:
            yield InspectionFinding(check, "bad", "the announcement that it names is not in the log", name)
        else:
            yield InspectionFinding(check, "note", "not announced before it began", name)
    yield InspectionFinding(check, "note" if against.missing else "good", f"in this submission: {against.words}")
    for missing in against.missing:
        why = "" if missing.begun is None else f", begun by run {missing.begun!r}"
        why += "" if missing.withdrawn is None else f", withdrawn: {missing.withdrawn}"
        yield InspectionFinding(
            check, "note", f"announced and not in this submission: {missing.id} (entry {missing.number}){why}"
        )


def _of_witnesses(runs: list[RunInspection], log: Announcements, by: Signers) -> Iterator[InspectionFinding]:
    """Yield whether another principal gave the nonce before a run, and which part of the run others witnessed."""
    for first, folder in ((run.first, run.folder) for run in runs):
        entry = None if first is None else log.by_id(str(first.config.get("announcement")))
        if first is None or entry is None:
            continue
        if fault := nonce_fault(log, entry, by):
            is_bad = by is not None and entry.id in log.nonces()
            yield InspectionFinding("announced", "bad" if is_bad else "note", fault, first.run)
        witnessed_share, faults = witnessed(log, entry, by, first, folder)
        yield from (InspectionFinding("witnessed", "bad", fault, first.run) for fault in faults)
        if witnessed_share is not None:
            text = f"another principal witnessed {share(witnessed_share)} of the run's time"
            yield InspectionFinding("witnessed", "note", text, first.run)


def _of_equal_runs(runs: list[RunInspection]) -> Iterator[InspectionFinding]:
    seen: dict[str, str] = {}
    for run in runs:
        if run.chain is not None:
            if run.chain in seen:
                yield InspectionFinding("runs", "bad", f"the same journal as that of {seen[run.chain]}", run.name)
            seen.setdefault(run.chain, run.name)
