"""A changed, removed or inserted byte of a real journal is reported with its line, or as a torn last line.

Hash chains are not recomputed: this is damage by a disk, a transfer or an editor. Only an incomplete last line, as a killed
driver leaves it, is harmless. It is dropped with a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from aiperf.errors import AiperfError, JournalDamaged
from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import NAME, read
from aiperf.verify import verify
from tools.verify_standalone import NotAJournal, Untrue, verified

REAL = (Path(__file__).parents[1] / "golden" / "resumed-v5.jsonl").read_bytes()
EVENTS = list(read(Path(__file__).parents[1] / "golden" / "resumed-v5.jsonl"))
LINES = REAL.splitlines(keepends=True)
SHORT = len(b"".join(LINES[:12]))
"""Bytes of its first twelve lines, a whole journal too: of a run that has not ended."""

Damage = tuple[int, bytes, int]
"""Where, what is put there, and how many bytes it takes the place of."""


def flipped(at: int, bit: int) -> Damage:
    return at, bytes([REAL[at] ^ 1 << bit]), 1


def replaced(at: int, rng: Random) -> Damage:
    return at, bytes([rng.choice([byte for byte in range(256) if byte != REAL[at]])]), 1


def taken(at: int) -> Damage:
    return at, b"", 1


def inserted(at: int, rng: Random) -> Damage:
    return at, bytes([rng.randrange(256)]), 0


@dataclass
class Counts:
    """Counts of results of damages."""

    refused: int = 0
    torn: int = 0
    """Told as a torn last line, and the lines before it are as they were."""
    harmless: list[Damage] = field(default_factory=list)
    """No message, and all events unchanged."""
    swallowed: list[Damage] = field(default_factory=list)
    """No message, but an event changed."""

    @property
    def all(self) -> int:
        return self.refused + self.torn + len(self.harmless) + len(self.swallowed)


class Damaged:
    """A journal's file that is damaged, read, and put right again."""

    def __init__(self, folder: Path, length: int) -> None:
        self.path = folder / NAME
        self.whole = REAL[:length]
        self.events: list[AnyEvent] = EVENTS[: self.whole.count(b"\n")]
        self.counts = Counts()

    def look(self, damage: Damage) -> None:
        at, put, of = damage
        self.path.write_bytes(self.whole[:at] + put + self.whole[at + of :])
        line = self.whole[:at].count(b"\n") + 1
        reader = read(self.path)
        try:
            found = list(reader)
        except JournalDamaged as refused:
            # its line, or the next where its end was taken: two lines are one then
            assert refused.line in (None, line, line + 1), f"{damage}: {refused}"
            self.counts.refused += 1
        except AiperfError:
            self.counts.refused += 1
        else:
            if reader.reading.torn and found == self.events[: len(found)] and len(found) >= len(self.events) - 1:
                self.counts.torn += 1
            elif found == self.events:
                self.counts.harmless.append(damage)
            else:
                self.counts.swallowed.append(damage)


def every(length: int, rng: Random) -> Iterator[Damage]:
    """All single bits of all bytes, each byte taken out, another in its place, and one put in before it and at the end."""
    for at in range(length):
        yield from (flipped(at, bit) for bit in range(8))
        yield replaced(at, rng)
        yield taken(at)
        yield inserted(at, rng)
    yield inserted(length, rng)


def drawn(length: int, rng: Random, step: int) -> Iterator[Damage]:
    """Yield a damage at every `step`th byte, the kinds in turn, and all kinds at the last two bytes."""
    kinds = (
        lambda at: flipped(at, rng.randrange(8)),
        lambda at: replaced(at, rng),
        taken,
        lambda at: inserted(at, rng),
    )
    for count, at in enumerate(range(rng.randrange(step), length, step)):
        yield kinds[count % 4](at)
    for at in (length - 2, length - 1):
        yield from (flipped(at, bit) for bit in range(8))
        yield taken(at)
        yield inserted(at, rng)
    yield inserted(length, rng)


def test_damaged_bytes_of_a_real_journal_are_refused_or_torn(tmp_path: Path) -> None:
    rng, damaged = Random("damage"), Damaged(tmp_path, len(REAL))

    for damage in drawn(len(REAL), rng, step=151):
        damaged.look(damage)

    counts = damaged.counts
    assert counts.all > 490
    assert (counts.harmless, counts.swallowed) == ([], [])
    assert counts.torn <= 20, "only at the end of the last line"


@pytest.mark.slow
def test_every_damage_of_a_short_journal_is_refused_or_torn(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path, SHORT)

    for damage in every(SHORT, Random("every damage")):
        damaged.look(damage)

    counts = damaged.counts
    print(f"{SHORT} bytes, {counts.all} damages: {counts.refused} refused, {counts.torn} torn")
    assert counts.all == 11 * SHORT + 1
    assert (counts.harmless, counts.swallowed) == ([], [])


@pytest.mark.slow
def test_every_damaged_byte_of_a_real_journal_is_refused_or_torn(tmp_path: Path) -> None:
    damaged = Damaged(tmp_path, len(REAL))

    for damage in drawn(len(REAL), Random("every byte"), step=1):
        damaged.look(damage)

    counts = damaged.counts
    print(f"{len(REAL)} bytes, {counts.all} damages: {counts.refused} refused, {counts.torn} torn")
    assert counts.all >= len(REAL)
    assert (counts.harmless, counts.swallowed) == ([], [])


def test_both_implementations_refuse_the_same_journals(tmp_path: Path) -> None:
    rng, path = Random("second"), tmp_path / NAME
    for at, put, of in drawn(SHORT, rng, step=61):
        path.write_bytes(REAL[:at] + put + REAL[at + of : SHORT])
        reader = read(path)
        try:
            lines: int | None = len(list(reader))
        except AiperfError:
            lines = None
        try:
            found = verified(path)
        except (NotAJournal, Untrue):
            assert lines is None, f"byte {at}: the first reads it"
        else:
            assert (found["lines"], found["torn_bytes"]) == (lines, len(reader.reading.torn)), f"byte {at}"


@pytest.mark.parametrize("place", [0.02, 0.3, 0.6, 0.97])
def test_verifying_answers_a_damaged_journal_with_its_line(tmp_path: Path, place: float) -> None:
    at = int(len(REAL) * place)
    _, put, _ = flipped(at, 3)
    (tmp_path / NAME).write_bytes(REAL[:at] + put + REAL[at + 1 :])

    found = verify(tmp_path)

    assert not found.is_sound and not found.is_whole
    assert [finding.line for finding in found.findings if finding.check == "reading"] == [REAL[:at].count(b"\n") + 1]
