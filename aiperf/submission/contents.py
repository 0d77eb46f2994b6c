"""Names of the files in a submission, and the content of submission.json, which lists its runs."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from aiperf.errors import BundleRefused
from aiperf.journal.journal import NAME as JOURNAL
from aiperf.journal.sealed_log import check_object

FORMAT = 1
MANIFEST = "MANIFEST"
SIGNATURE = "MANIFEST.sig"
SUBMISSION = "submission.json"
ANNOUNCEMENTS = "announcements.jsonl"
PAGE = "report.html"
TELEMETRY = "telemetry"
LARGEST = {MANIFEST: 4 << 20, SIGNATURE: 4096, SUBMISSION: 4 << 20, ANNOUNCEMENTS: 32 << 20}
"""Largest size in bytes of members that are read into memory before they are checked."""
LARGEST_JOURNAL = 4 << 30
"""Largest size in bytes of the journal of a submitted run: about 8 million lines (docs/architecture.md, design size: 2)."""
_FILE = r"[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,63}"
_NAMED = "|".join(map(re.escape, (JOURNAL, PAGE)))
MEMBER = re.compile(
    rf"{re.escape(SUBMISSION)}|{re.escape(ANNOUNCEMENTS)}|"
    rf"runs/[1-9][0-9]{{0,5}}/({_NAMED}|{TELEMETRY}/{_FILE}\.jsonl|power/{_FILE}\.(yaml|csv))"
)
"""Names of members, without the manifest and its signature. No name leaves the folder, and none is hidden."""


def largest_of(name: str) -> int | None:
    """Return the largest size in bytes of the member `name`. None if it has no bound of its own."""
    return LARGEST_JOURNAL if name.endswith(f"/{JOURNAL}") else LARGEST.get(name)


TelemetryHeld = Literal["included", "left out", "none recorded"]


class SubmittedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a submission, as an entry of submission.json. The first is in the folder runs/1, the second in runs/2."""

    run: str
    telemetry: TelemetryHeld


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """Content of submission.json: release, last announcement and list of runs."""

    format: int = FORMAT
    release: str
    announcements: str | None = None
    """Head of the included log of announcements. None without a log."""
    runs: tuple[SubmittedRun, ...]


def refused(rule: str, found: str) -> BundleRefused:
    return BundleRefused(f"{rule}, but {found}. Ask its sender for a new file")


def submission_of(content: bytes) -> Submission:
    """Return the list of runs in submission.json, after a check. `content`: bytes of the file."""
    try:
        check_object(content)
        document = msgspec.json.decode(content, type=dict[str, Any])
        if document.get("format") != FORMAT:
            raise BundleRefused(
                f"this release reads {SUBMISSION} of format {FORMAT}, but found {document.get('format')!r}. Read it with the "
                "release that made it"
            )
        found = msgspec.convert(document, Submission)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError) as error:
        raise BundleRefused(
            f"{SUBMISSION} lists the runs of a submission. This one cannot be read: {error}. Ask its sender for a new file"
        ) from error
    if not found.runs:
        raise BundleRefused(
            f"a submission is of one run or more. {SUBMISSION} names none. Ask its sender for a new file"
        )
    return found
