"""Creation of a submission file from the folders of runs. It is kept only if it passes the inspection of a receiver."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from aiperf.atomic_files import require_writable
from aiperf.errors import BadConfiguration, explained
from aiperf.files import require_file, sha256_of
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import NAME as JOURNAL
from aiperf.journal.journal import read
from aiperf.progress import steps
from aiperf.report.gather import gather
from aiperf.report.html import page
from aiperf.report.sections import sections
from aiperf.report.write import recomputed
from aiperf.submission.announcement_file import log_path
from aiperf.submission.announcements import parse
from aiperf.submission.archive import (
    ANNOUNCEMENTS,
    PAGE,
    SUBMISSION,
    TELEMETRY,
    Content,
    Submission,
    SubmittedRun,
    TelemetryHeld,
    manifest_of,
    pack,
    recorded,
    weights_beside,
)
from aiperf.submission.inspect_run import Inspection, Requirements
from aiperf.submission.inspect_submission import inspect
from aiperf.submission.signatures import sign
from aiperf.system.describe import versions
from aiperf.system.meters import FOLDER as POWER
from aiperf.train.checkpoints.checkpoint_files import BEST, CHECKPOINTS, sealed_file


def build(
    runs: Sequence[Path],
    path: Path,
    *,
    key: Path | None,
    log: str | None,
    with_telemetry: bool = True,
    with_weights: bool = True,
    signers: Path | None = None,
) -> Inspection:
    """Create the submission file `path` of runs and the file of their weights. Return the findings of their inspection."""
    draft = path.with_name(f".{secrets.token_hex(8)}.draft")
    names = {weights_beside(draft): weights_beside(path), draft: path}
    if found_file := next((new for new in names.values() if new.exists()), None):
        raise BadConfiguration(f"a submission is a new file, but '{found_file}' exists: name another by --out")
    require_writable(path)
    if key is not None:
        sign(key, b"")  # before the long work
    try:
        contents = _contents(runs, log, weights_beside(draft), with_telemetry=with_telemetry, with_weights=with_weights)
        manifest = manifest_of(contents)
        pack(draft, contents, manifest, None if key is None else sign(key, manifest))
        inspection = inspect(draft, Requirements(signers=signers))
        for written, new in names.items():
            if inspection.is_good and written.exists():
                written.rename(new)
    finally:
        for written in names:
            written.unlink(missing_ok=True)
    return replace(inspection, path=str(path))


def _contents(
    runs: Sequence[Path], given_log: str | None, weights: Path, *, with_telemetry: bool, with_weights: bool
) -> dict[str, Content]:
    """Return the members of the submission, and write the file of weights if there are any."""
    parts: dict[str, Content] = {}
    submitted, firsts = [], []
    for number, folder in enumerate(steps("runs", runs), 1):
        into = f"runs/{number}"
        run, first = _run(folder, into, parts, with_telemetry=with_telemetry, with_weights=with_weights)
        submitted.append(run)
        firsts.append(first)
    log = _log(given_log, firsts)
    checkpoints = {name: parts.pop(name) for name in list(parts) if f"/{CHECKPOINTS}/" in name}
    if checkpoints:
        pack(weights, checkpoints, manifest_of(checkpoints), None)
    submission = Submission(
        release=versions().get("aiperf-cluster", "unknown"),
        announcements=None if log is None else parse(log, ANNOUNCEMENTS).head,
        weights=sha256_of(weights) if checkpoints else None,
        runs=tuple(submitted),
    )
    listed = msgspec.json.format(msgspec.json.encode(submission), indent=1) + b"\n"
    return {SUBMISSION: listed} | ({} if log is None else {ANNOUNCEMENTS: log}) | parts


def _run(
    folder: Path, into: str, parts: dict[str, Content], *, with_telemetry: bool, with_weights: bool
) -> tuple[SubmittedRun, RunStarted]:
    samples = recorded(folder)
    with_samples = with_telemetry or not samples
    report = recomputed(folder) if with_samples else gather(read(folder))
    first = next(iter(read(folder)))
    assert isinstance(first, RunStarted), "the report has read it"
    parts[f"{into}/{JOURNAL}"] = folder / JOURNAL
    parts[f"{into}/{PAGE}"] = page(report, sections(report)).encode()
    held: TelemetryHeld = "none recorded" if not samples else "included" if with_telemetry else "left out"
    if held == "included":
        parts |= {f"{into}/{TELEMETRY}/{file.name}": file for file in samples}
    if with_samples:
        meters = (file for file in sorted((folder / POWER).glob("*")) if file.suffix in (".yaml", ".csv"))
        parts |= {f"{into}/{POWER}/{file.name}": file for file in meters}
    if with_weights and report.weights is not None:
        file = sealed_file(folder, report.weights)
        if file is None:
            raise BadConfiguration(
                f"a submission shows the quality by a checkpoint with the SHA-256 in the journal, but '{folder}' has none: "
                "restore checkpoints/, or leave the weights out (--no-weights, quality not shown)"
            )
        parts[f"{into}/{CHECKPOINTS}/{file.name.removeprefix(BEST)}"] = file
    return SubmittedRun(run=first.run, telemetry=held), first


def _log(given: str | None, firsts: Sequence[RunStarted]) -> bytes | None:
    named = [first for first in firsts if first.config.get("announcement") is not None]
    path = None if given is None else log_path(given)
    if path is None and named:
        path = log_path(str(named[0].config.get("announcement_log")))
    if path is None:
        return None
    with explained(
        path, "cannot be read", "A submission of an announced run holds the site's log: name it by --log FILE"
    ):
        require_file(path)
        return path.read_bytes()
