"""Judges a submission as its receiver does: unpacked in a folder of its own, and believed in nothing that can be worked out.

Every check adds its findings; none stops the others, but what cannot be read is looked at no further. The checks of one run
are in `judge_run.py`.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from aiperf.errors import AnnouncementsDamaged, BundleRefused
from aiperf.journal.events import RunStarted
from aiperf.submission.allowed import Signers, principals_of
from aiperf.submission.announcements import Announcements, parse
from aiperf.submission.archive import Unpacked, unpack
from aiperf.submission.contents import ANNOUNCEMENTS, SUBMISSION, Submission, submission_of
from aiperf.submission.inspection import Finding, HeldTo, Inspection, SignedBy
from aiperf.submission.judge_run import Judged, judge_run
from aiperf.submission.published import Announced, announced, witnessed_unix
from aiperf.submission.sshsig import NoSignature, PublicKey, is_good, parsed


def inspect(path: Path, held_to: HeldTo | None = None) -> Inspection:
    """Judges the submission in a file. `held_to`: None: to nothing beside itself.

    Raises:
        OSError: the file cannot be read, or there is no room to unpack it.
    """
    held_to = held_to or HeldTo()
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    with tempfile.TemporaryDirectory(prefix="aiperf-inspect-") as scratch:
        folder = Path(scratch)
        try:
            unpacked = unpack(path, folder, held_to.most_bytes)
            submission = _submission(folder, unpacked)
        except BundleRefused as error:
            return Inspection(
                path=str(path),
                sha256=sha256,
                signature=None,
                key=None,
                signers=(),
                release=None,
                runs=(),
                announced=None,
                findings=(Finding("archive", "bad", str(error)),),
            )
        return _judged(str(path), sha256, folder, unpacked, submission, held_to)


def _judged(
    path: str,
    sha256: str,
    folder: Path,
    unpacked: Unpacked,
    submission: Submission,
    held_to: HeldTo,
) -> Inspection:
    signers = held_to.signers
    runs = [judge_run(run, folder, submission, held_to) for run in submission.runs]
    ended_unix = max((run.ended_unix for run in runs if run.ended_unix is not None), default=0.0)
    signed, key = _signature(unpacked, signers, ended_unix)
    log, of_log = _log(folder, submission, signers)
    firsts = [run.first for run in runs if run.first is not None]
    against = None if log is None else announced(log, firsts)
    return Inspection(
        path=path,
        sha256=sha256,
        signature=signed,
        key=None if key is None else key.fingerprint,
        signers=() if key is None or signers is None else principals_of(signers, key, ended_unix),
        release=submission.release,
        runs=tuple(run.run for run in submission.runs),
        announced=against,
        findings=(
            *_of_members(unpacked, submission),
            _of_signature(signed, key, signers),
            *of_log,
            *(finding for run in runs for finding in run.findings),
            *_of_announcements(firsts, against, log),
            *_of_equal_runs(runs),
        ),
    )


def _submission(folder: Path, unpacked: Unpacked) -> Submission:
    if SUBMISSION not in unpacked.names:
        raise BundleRefused(f"a submission holds {SUBMISSION}; this one does not")
    return submission_of((folder / SUBMISSION).read_bytes())


def _of_members(unpacked: Unpacked, submission: Submission) -> Iterator[Finding]:
    for name in unpacked.changed:
        yield Finding("checksums", "bad", f"{name} is not the file that the manifest lists: it was changed since")
    if not unpacked.changed:
        yield Finding("checksums", "good", f"{len(unpacked.names)} members are as the manifest lists them")
    known = (SUBMISSION, ANNOUNCEMENTS, *(f"{run.folder}/" for run in submission.runs))
    for name in unpacked.names:
        if not name.startswith(known):
            yield Finding("members", "note", f"{name} belongs to no run of the submission")


def _signature(unpacked: Unpacked, signers: Signers | None, at_unix: float) -> tuple[SignedBy, PublicKey | None]:
    if unpacked.signature is None:
        return "unsigned", None
    try:
        signature = parsed(unpacked.signature)
    except NoSignature:
        return "bad signature", None
    if not is_good(signature, unpacked.manifest):
        return "bad signature", signature.key
    if signers is None:
        return "nobody asked for", signature.key
    return ("good" if principals_of(signers, signature.key, at_unix) else "unknown key"), signature.key


def _of_signature(signed: SignedBy, key: PublicKey | None, signers: Signers | None) -> Finding:
    name = "" if key is None else key.fingerprint
    match signed:
        case "good":
            return Finding("signature", "good", f"signed by {name}, which is allowed to")
        case "nobody asked for":
            return Finding("signature", "note", f"signed by {name}; whose key that is, --allowed FILE would say")
        case "unsigned":
            return Finding("signature", "note" if signers is None else "bad", "unsigned: anybody can have made it")
        case "unknown key":
            return Finding("signature", "bad", f"signed by {name}, which is not among the allowed signers")
        case "bad signature":
            text = f"the signature in it, by {name or 'no key that can be read'}, is not one of this manifest"
            return Finding("signature", "bad", text)


def _log(
    folder: Path, submission: Submission, signers: Signers | None
) -> tuple[Announcements | None, tuple[Finding, ...]]:
    file = folder / ANNOUNCEMENTS
    if not file.is_file():
        return None, ()
    try:
        log = parse(file.read_bytes(), ANNOUNCEMENTS)
    except AnnouncementsDamaged as error:
        return None, (Finding("announcements", "bad", str(error)),)
    found = []
    if log.head != submission.announcements:
        found.append(Finding("announcements", "bad", f"{SUBMISSION} names another head of the log than it has"))
    if signers is not None:
        found += [
            Finding(
                "announcements",
                "bad",
                f"entry {each.entry.number} is signed by {each.key.fingerprint}, which is not among the allowed signers",
            )
            for each in log.entries
            if not principals_of(signers, each.key, each.entry.at_unix)
        ]
    return log, tuple(found)


def _of_announcements(
    firsts: list[RunStarted], against: Announced | None, log: Announcements | None
) -> Iterator[Finding]:
    check = "announced"
    if against is None or log is None:
        for first in firsts:
            named = first.config.get("announcement")
            if named is not None:
                text = (
                    f"it names announcement {str(named)[:12]!r}…, and no log of announcements that can be read is here"
                )
                yield Finding(check, "bad", text, first.run)
            else:
                yield Finding(check, "note", "not announced before it began", first.run)
        return
    for name, how in against.broken:
        yield Finding(check, "bad", f"not as announced: {'; '.join(how)}", name)
    for wanted, names in against.used_twice:
        text = f"announcement {wanted[:12]}… serves one run; {', '.join(names)} name it"
        yield Finding(check, "bad", text)
    yield from _of_witnesses(firsts, log)
    named_runs = {first.run for first in firsts if first.config.get("announcement") is not None}
    for name in against.unannounced:
        if name in named_runs:
            yield Finding(check, "bad", "the announcement that it names does not stand in the log", name)
        else:
            yield Finding(check, "note", "not announced before it began", name)
    yield Finding(check, "note" if against.missing else "good", f"in this submission: {against.words}")
    for missing in against.missing:
        why = "" if missing.withdrawn is None else f"; withdrawn: {missing.withdrawn}"
        yield Finding(
            check, "note", f"announced and not in this submission: {missing.id} (entry {missing.number}){why}"
        )


def _of_witnesses(firsts: list[RunStarted], log: Announcements) -> Iterator[Finding]:
    """Who but the site says that an announcement stood before its run began."""
    for first in firsts:
        entry = log.by_id(str(first.config.get("announcement")))
        if entry is None or first.simulated:
            continue
        seen = witnessed_unix(log, entry)
        if seen is None:
            text = "when it was announced is the site's own word: no other key has witnessed it"
        else:
            when = "before" if seen <= first.started_unix else "AFTER"
            text = f"another key saw its announcement {abs(first.started_unix - seen):.0f} s {when} the run began"
        yield Finding("announced", "note", text, first.run)


def _of_equal_runs(runs: list[Judged]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for run in runs:
        if run.chain is not None:
            if run.chain in seen:
                yield Finding("runs", "bad", f"the same journal as that of {seen[run.chain]}", run.name)
            seen.setdefault(run.chain, run.name)
