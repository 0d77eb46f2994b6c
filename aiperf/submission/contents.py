"""What a submission holds: the names of its members, and submission.json, which says of each run what is in and what is not.

MANIFEST  MANIFEST.sig  submission.json  announcements.jsonl
runs/1/  journal.jsonl  configuration.json  system.json  report.json  report.html  telemetry/<worker>.jsonl
         power/<meter>.yaml  power/<meter>.csv
"""

from __future__ import annotations

from collections.abc import Mapping
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
"""Files of each run, beside its telemetry."""

TelemetryHeld = Literal["included", "left out", "none recorded"]


class SubmittedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a submission."""

    run: str
    """Its name."""
    folder: str
    """Of its members: runs/1, runs/2, …"""
    simulated: bool
    resumes: int
    telemetry: TelemetryHeld
    source: dict[str, str]
    """Sources that its driver ran, as its journal says (aiperf.system.source); empty: it does not."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """submission.json. Fields that a later release adds are passed over."""

    format: int = FORMAT
    release: str
    """That made the submission, and its reports."""
    source: dict[str, str]
    """Sources that made it."""
    announcements: str | None = None
    """Head of the site's log of announcements when it was made. None: no log is in it."""
    runs: tuple[SubmittedRun, ...]


def submission_of(content: bytes) -> Submission:
    """Raises BundleRefused: it is none, or of a format that this release does not read."""
    try:
        told = msgspec.json.decode(content, type=dict[str, Any])
        if told.get("format") not in FORMATS_READ:
            raise BundleRefused(
                f"{SUBMISSION} has format {told.get('format')!r}; this release reads {FORMATS_READ[0]} to {FORMATS_READ[-1]}. "
                "Read it with the release that made it"
            )
        found = msgspec.convert(told, Submission)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise BundleRefused(f"{SUBMISSION} says what a submission holds; this one cannot be read: {error}") from error
    if not found.runs:
        raise BundleRefused(f"a submission is of one run or more; {SUBMISSION} names none")
    for number, run in enumerate(found.runs, 1):
        if run.folder != f"runs/{number}":
            raise BundleRefused(f"runs lie in runs/1, runs/2, …; {SUBMISSION} has {run.folder!r} as number {number}")
    return found


def as_json(value: object) -> bytes:
    """The same bytes for equal values: keys in order, one level a line."""
    return msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=1) + b"\n"


def configuration_of(first: RunStarted) -> Mapping[str, Any]:
    """configuration.json: what was decided before the run began."""
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
    """system.json: the driver's host, the workers' hosts, those that are alike as one, every node as it was read, and what
    the site says of its system."""
    return {
        "driver": first.machine,
        "versions": first.versions,
        "workers": report.systems,
        "nodes": report.nodes,
        "described": report.system,
    }
