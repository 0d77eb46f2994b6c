"""A site's log of announcements, as values: lines that are signed, each naming the one before by its SHA-256.

    {"entry":"announced","format":1,"number":3,"previous":"<SHA-256 of line 2>","at_unix":…,…,"signature":"-----BEGIN SSH …"}

What is signed is the line without its signature. The SHA-256 of a whole line, without its newline, is the entry's id: by it a
run's journal names its announcement, and the next entry its place. A line that is taken out, changed or moved breaks the chain;
lines cut off its end do not, and are found by whoever has seen a later head (`continues`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from aiperf.errors import AnnouncementsDamaged
from aiperf.submission.sshsig import NoSignature, PublicKey, Signature, is_good, parsed

FORMAT = 1
ORIGIN = "0" * 64
"""What the first entry names as the one before."""
_SIGNATURE = b',"signature":"'
_LARGEST_LINE = 1 << 20


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="entry"):
    """What all entries say."""

    format: int = FORMAT
    number: int
    """From 1."""
    previous: str
    at_unix: float
    """The signing host's wall clock, seconds since 1970. The site's own word: see docs/submission.md, "Whose time"."""


class RunAnnounced(_Entry, frozen=True, kw_only=True, tag="announced"):
    """A run that is to be: it may be started once, as it stands here."""

    seed: int
    config: dict[str, Any]
    """All options, but those of aiperf.submission.announced_run.OWN."""
    config_hash: str
    """SHA-256 of `config` in canonical JSON."""
    proposal_rules: int
    """Version of the rules by which proposals follow from the history."""
    release: str
    """That announced it."""


class RunWithdrawn(_Entry, frozen=True, kw_only=True, tag="withdrawn"):
    """An announced run that will not be. It stays among those announced; the reason is shown with it."""

    announcement: str
    reason: str


class HeadWitnessed(_Entry, frozen=True, kw_only=True, tag="witnessed"):
    """Somebody else's key: the entries before this one stood at this time."""


AnyEntry = RunAnnounced | RunWithdrawn | HeadWitnessed


@dataclass(frozen=True, slots=True)
class Signed:
    """An entry as it stands in a log, its signature found good."""

    id: str
    key: PublicKey
    entry: AnyEntry


@dataclass(frozen=True, slots=True)
class Announcements:
    """A log that was read to its end."""

    entries: tuple[Signed, ...]
    end: int
    """Bytes of its whole lines."""
    torn: bytes
    """What stood after them: a line that was being written when its writer was killed. Nobody was told of its id."""

    @property
    def head(self) -> str:
        """Id of the last entry; who knows it will see when the log is cut."""
        return self.entries[-1].id if self.entries else ORIGIN

    def by_id(self, wanted: str) -> Signed | None:
        """The entry of that id."""
        return next((each for each in self.entries if each.id == wanted), None)

    def withdrawn(self) -> dict[str, str]:
        """Announcements that were withdrawn, each with its reason."""
        return {
            each.entry.announcement: each.entry.reason for each in self.entries if isinstance(each.entry, RunWithdrawn)
        }


def body_of(entry: AnyEntry) -> bytes:
    """What is signed."""
    return msgspec.json.encode(entry)


def line_of(body: bytes, signature: str) -> bytes:
    """A line of a log, with its newline."""
    return body[:-1] + b',"signature":' + msgspec.json.encode(signature) + b"}\n"


def parse(content: bytes, name: str) -> Announcements:
    """Reads a log and checks its chain and its signatures; `name` is for messages.

    Raises:
        AnnouncementsDamaged: a line that is no entry, does not follow from the one before it, or whose signature is not good.
    """
    entries: list[Signed] = []
    end = 0
    lines = content.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            signed = _entry(line)
            _follows(signed.entry, number, entries)
        except ValueError as error:
            raise AnnouncementsDamaged(
                f"each line of a log of announcements is signed and follows from the one before it; '{name}', line {number}: "
                f"{error}. Restore the file from a copy: none of its lines may be changed, moved or removed"
            ) from error
        entries.append(signed)
        end += len(line) + 1
    return Announcements(tuple(entries), end, lines[-1])


def continues(longer: Announcements, shorter: Announcements) -> bool:
    """Whether a log holds all of an earlier copy of it, unchanged."""
    ids = [each.id for each in shorter.entries]
    return [each.id for each in longer.entries[: len(ids)]] == ids


def _entry(line: bytes) -> Signed:
    if len(line) > _LARGEST_LINE:
        raise ValueError(f"an entry has at most {_LARGEST_LINE} bytes; found {len(line)}")
    body, mark, rest = line.rpartition(_SIGNATURE)
    if not mark:
        raise ValueError("it carries no signature")
    body += b"}"
    try:
        text = msgspec.json.decode(b'"' + rest[:-1], type=str)
        signature: Signature = parsed(text)
        entry = msgspec.json.decode(body, type=AnyEntry)
    except NoSignature as error:
        raise ValueError(f"its signature cannot be read: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is no entry of format {FORMAT} ({error})") from error
    if line != line_of(body, text)[:-1]:
        raise ValueError("it is not written as entries are")
    if not is_good(signature, body):
        raise ValueError("its signature is not good: it was changed after it was signed")
    return Signed(hashlib.sha256(line).hexdigest(), signature.key, entry)


def _follows(entry: AnyEntry, number: int, before: Sequence[Signed]) -> None:
    if entry.format != FORMAT:
        raise ValueError(f"it has format {entry.format}; this release reads format {FORMAT}")
    expected = before[-1].id if before else ORIGIN
    if entry.number != number or entry.previous != expected:
        raise ValueError(
            f"it says that it is entry {entry.number} and follows {entry.previous[:12]!r}; it stands as entry {number}, after "
            f"{expected[:12]!r}: a line was removed, moved or put in"
        )
    if isinstance(entry, RunWithdrawn) and entry.announcement not in {
        each.id for each in before if isinstance(each.entry, RunAnnounced)
    }:
        raise ValueError(f"it withdraws {entry.announcement[:12]!r}, which was not announced before it")
