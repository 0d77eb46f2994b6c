"""Members of a submission, and submission.json, which lists the included parts of each run.

MANIFEST  MANIFEST.sig  submission.json  announcements.jsonl
runs/1/  journal.jsonl  configuration.json  system.json  report.json  report.html  telemetry/<worker>.jsonl
         power/<meter>.yaml  power/<meter>.csv
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from aiperf.errors import BundleRefused
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import NAME as JOURNAL
from aiperf.report.facts import Report

FORMAT = 1
FORMATS_READ = range(1, FORMAT + 1)
SUBMISSION = "submission.json"
ANNOUNCEMENTS = "announcements.jsonl"
CONFIGURATION = "configuration.json"
SYSTEM = "system.json"
REPORT = "report.json"
PAGE = "report.html"
TELEMETRY = "telemetry"
PARTS = (JOURNAL, CONFIGURATION, SYSTEM, REPORT, PAGE)
"""Files of each run, without its telemetry."""
LARGEST = {SUBMISSION: 4 << 20, ANNOUNCEMENTS: 32 << 20}
"""Largest size in bytes of members that are read into memory before they are checked."""
_OF_A_RUN = re.compile(
    rf"(?P<folder>runs/[0-9]+)/({'|'.join(map(re.escape, PARTS))}|{TELEMETRY}/[^/]+\.jsonl|power/[^/]+\.(yaml|csv))"
)

TelemetryHeld = Literal["included", "left out", "none recorded"]


class SubmittedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a submission."""

    run: str
    """Name of the run."""
    folder: str
    """Folder of its members: runs/1, runs/2, …"""
    simulated: bool
    resumes: int
    telemetry: TelemetryHeld
    source: dict[str, str]
    """Sources of its driver as recorded in the journal (aiperf.system.source). Empty if not recorded."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """Content of submission.json. Unknown fields of later releases are ignored."""

    format: int = FORMAT
    release: str
    """Release that created the submission and its reports."""
    source: dict[str, str]
    """Sources that created the submission."""
    announcements: str | None = None
    """Head of the included log of announcements. None without a log."""
    runs: tuple[SubmittedRun, ...]


def submission_of(content: bytes) -> Submission:
    """Read submission.json. Raises BundleRefused if it is invalid or has an unknown format."""
    try:
        document = msgspec.json.decode(content, type=dict[str, Any])
        if document.get("format") not in FORMATS_READ:
            raise BundleRefused(
                f"{SUBMISSION} has format {document.get('format')!r}. This release reads {FORMATS_READ[0]} to "
                f"{FORMATS_READ[-1]}. Read it with the release that made it"
            )
        found = msgspec.convert(document, Submission)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise BundleRefused(f"{SUBMISSION} lists the runs of a submission. This one cannot be read: {error}") from error
    if not found.runs:
        raise BundleRefused(f"a submission is of one run or more. {SUBMISSION} names none")
    for number, run in enumerate(found.runs, 1):
        if run.folder != f"runs/{number}":
            raise BundleRefused(f"runs are in runs/1, runs/2, …. {SUBMISSION} has {run.folder!r} as number {number}")
    return found


def content_of(folder: Path, name: str) -> bytes:
    """Read `submission.json` or the announcements. Raises BundleRefused if the file is too large."""
    size = (folder / name).stat().st_size
    if size > LARGEST[name]:
        raise BundleRefused(f"{name} has at most {LARGEST[name]} bytes, but found {size}")
    return (folder / name).read_bytes()


def is_member(name: str, submission: Submission) -> bool:
    """Return True if a file of this name belongs to a submission of these runs."""
    match = _OF_A_RUN.fullmatch(name)
    return name in LARGEST or (match is not None and match["folder"] in {run.folder for run in submission.runs})


def as_json(value: object) -> bytes:
    """Return JSON that is equal for equal values: sorted keys, indented by 1."""
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=1) + b"\n"


def configuration_of(first: RunStarted) -> Mapping[str, Any]:
    """Return configuration.json: everything that was fixed before the run began."""
    return {
        "run": first.run,
        "seed": first.seed,
        "config": first.config,
        "config_hash": first.config_hash,
        "proposal_rules": first.proposal_rules,
        "schema": first.schema,
        "dataset": first.dataset,
        "simulated": first.simulated,
    }


def system_of(first: RunStarted, report: Report) -> Mapping[str, Any]:
    """Return system.json: the driver's host, the workers' hosts (equal ones merged), every node, and the site's description."""
    return {
        "driver": first.machine,
        "versions": first.versions,
        "workers": report.systems,
        "nodes": report.nodes,
        "described": report.system,
    }
