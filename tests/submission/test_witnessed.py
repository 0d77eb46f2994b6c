"""Journals whose states another principal signed during the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.journal.journal import NAME
from aiperf.journal.sealed_log import ORIGIN, sealed
from aiperf.submission.announcements import Announcements, JournalWitnessed, RunBegun, SignedEntry
from aiperf.submission.witnessed import SOON_SECONDS, witnessed
from tests.builders.journal import started

BEGAN_UNIX, SECONDS = 1_790_000_000.0, 7200
FIRST = started(started_unix=BEGAN_UNIX)
EVERY_MINUTE = [f"line at {at}" for at in range(0, SECONDS + 60, 60)]
ANNOUNCED = SignedEntry(
    "announced", RunBegun(number=1, previous="", at_unix=0.0, announcement="", run="", started_unix=0.0, folder="", host=""),
    b"", "", None,
)  # fmt: skip


def seals(texts: list[str], folder: Path) -> list[str]:
    """Write a journal with a line each minute. Return the hash of each line."""
    chain, lines, found = ORIGIN, [], []
    for number, text in enumerate(texts):
        line, chain = sealed(chain, msgspec.json.encode({"at": 60.0 * number, "text": text}))
        lines.append(line)
        found.append(chain.decode())
    (folder / NAME).write_bytes(b"".join(lines))
    return found


def judged(
    shown: list[tuple[float, int]], texts: list[str] = EVERY_MINUTE, by: str = "other"
) -> tuple[float | None, list[str]]:
    """Compare a journal with a log in which `shown` was signed, as (seconds after the start, lines)."""
    with TemporaryDirectory() as name:
        hashes = seals(EVERY_MINUTE, Path(name))
        entries = [
            JournalWitnessed(
                number=number, previous="", at_unix=BEGAN_UNIX + at, announcement="announced", run="run", lines=lines,
                hash=hashes[lines - 1],
            )
            for number, (at, lines) in enumerate(shown, 2)
        ]  # fmt: skip
        signed = tuple(replace(ANNOUNCED, id=str(entry.number), entry=entry) for entry in entries)
        signers = {"announced": ("site",)} | {each.id: (by,) for each in signed}
        seals(texts, Path(name))
        return witnessed(Announcements(signed, 0, b""), ANNOUNCED, signers, FIRST, Path(name))


def live(every: int, delay: float = 0.0) -> list[tuple[float, int]]:
    """States that a witness sees in a run in progress, and at its end."""
    return [(at + delay, at // 60 + 1) for at in [*range(every, SECONDS, every), SECONDS]]


@given(st.integers(1, 20).map(lambda minutes: 60 * minutes))
def test_a_run_is_witnessed_by_others_as_it_goes_on(every: int) -> None:
    assert judged(live(every))[0] == pytest.approx(1.0)
    assert judged(live(every), by="site") == (0.0, [])


@given(st.integers(1, 120).map(lambda minutes: 60 * minutes), st.floats(SOON_SECONDS, 1e6))
def test_a_run_invented_afterwards_is_not_witnessed(every: int, delay: float) -> None:
    assert judged(live(every, SECONDS + delay)) == (0.0, [])


@given(st.integers(1, len(EVERY_MINUTE)), st.floats(0.0, SECONDS))
def test_lines_of_the_future_are_not_witnessed(lines: int, at: float) -> None:
    share, faults = judged([(at, lines)])

    assert share is not None and share <= at / SECONDS + 1e-9
    assert faults == []


@given(st.integers(0, len(EVERY_MINUTE) - 1))
def test_a_line_changed_after_it_was_witnessed_is_found(number: int) -> None:
    changed = [*EVERY_MINUTE[:number], "better", *EVERY_MINUTE[number + 1 :]]

    share, faults = judged(live(600), changed)

    later = [lines for _, lines in live(600) if lines > number]
    assert [f"line {lines} was witnessed" in fault for lines, fault in zip(later, faults, strict=True)] == [True] * len(
        later
    )
    assert share == pytest.approx((12 - len(later)) * 600 / SECONDS)
