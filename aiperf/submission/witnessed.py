"""States of a run's journal that another principal signed while it ran, and their comparison with the journal."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

import msgspec

from aiperf.errors import NotAsAnnounced
from aiperf.files import bounded_lines
from aiperf.journal.events import RunEnded, RunStarted
from aiperf.journal.journal import NAME, read
from aiperf.journal.sealed_log import LONGEST_LINE
from aiperf.submission.announced_run import is_of_another
from aiperf.submission.announcement_file import add, log_path
from aiperf.submission.announcements import Announcements, JournalWitnessed, SignedEntry, Signers

SOON_SECONDS = 1200.0
"""Longest time from a line of a journal to an entry after it for which the line counts as witnessed: two intervals."""


class _Line(msgspec.Struct):
    at: float
    chain: str


def witness(folder: Path, log: str | None, key: Path) -> tuple[JournalWitnessed, bool]:
    """Sign the present state of a run's journal in its log of announcements. Return the entry, and whether the run ended."""
    reader = read(folder)
    events = iter(reader)
    first = next(events)
    last = deque(events, maxlen=1)
    assert isinstance(first, RunStarted), "the reader has checked it"
    announced, named = (first.config.get(name) for name in ("announcement", "announcement_log"))
    if announced is None:
        raise NotAsAnnounced(
            f"the journal of an announced run is witnessed, but {first.run!r} was not: announce the next run"
        )
    state = {"lines": reader.reading.lines, "hash": reader.reading.chain.decode()}

    def seen(log: Announcements) -> JournalWitnessed:
        return log.following(JournalWitnessed, time.time(), announcement=announced, run=first.run, **state)

    signed, _ = add(log_path(log or str(named)), key, seen)
    assert isinstance(signed.entry, JournalWitnessed)
    return signed.entry, any(isinstance(event, RunEnded) for event in last)


def witnessed(
    log: Announcements, announced: SignedEntry, signers: Signers, first: RunStarted, folder: Path
) -> tuple[float | None, list[str]]:
    """Return the share of a run's time that another principal witnessed soon, and the contradictions to the run's journal.

    The share is None for a simulated run, and without `signers`.
    """
    entries = [(each.id, each.entry) for each in log.entries if isinstance(each.entry, JournalWitnessed)]
    seen = [(id, entry) for id, entry in entries if entry.announcement == announced.id]
    is_known = signers is not None and not first.simulated
    if not seen:
        return 0.0 if is_known else None, []
    wanted, last, lines = {entry.lines for _, entry in seen}, b"", {}
    with (folder / NAME).open("rb") as file:
        for number, line in enumerate(bounded_lines(file, LONGEST_LINE), 1):
            last = line if line[-1] == 0x0A else last  # a torn line is none
            if number in wanted and line is last:
                lines[number] = msgspec.json.decode(line, type=_Line)
    faults, covered, until = [], 0.0, 0.0
    for id, entry in seen:
        found, now = lines.get(entry.lines), entry.at_unix - first.started_unix
        if found is None or found.chain != entry.hash:
            faults.append(
                f"its journal is not the one whose line {entry.lines} was witnessed, entry {entry.number} of the log"
            )
        elif is_of_another(id, announced, signers):
            covered += max(0.0, min(found.at, now) - max(until, now - SOON_SECONDS))
            until = max(until, min(found.at, now))
    seconds = msgspec.json.decode(last, type=_Line).at
    return covered / (seconds or 1.0) if is_known else None, faults
