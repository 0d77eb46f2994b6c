"""Content of a site's log of announcements: signed entries about future, begun and withdrawn runs, in a `sealed_log`.

    {"entry":{"entry":"announced","number":3,"previous":"<id of entry 2>",…},"signature":"-----BEGIN SSH …","chain":"<id>"}

The chained hash is the id by which a journal names its announcement. A cut at the end shows only by an id that others keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from aiperf.errors import AnnouncementsDamaged
from aiperf.journal.legality import YEAR_10000, must
from aiperf.journal.sealed_log import ORIGIN, LineRefused, SealedLines, sealed
from aiperf.ranking.candidate import announced_seed
from aiperf.submission.signatures import principals, signing_key

FORMAT = 1
_LONGEST = 1 << 18
"""Largest entry in bytes. The configuration of a run has about 10 kB."""
_BEGINNING = b'{"entry":{'
_CHECKED_AT_ONCE = 8


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="entry"):
    format: int = FORMAT
    number: int
    """Position in the log, from 1."""
    previous: str
    at_unix: float
    """The writing host's wall clock, seconds since 1970. The site's own claim: see docs/ranking.md, "Whose time"."""


class RunAnnounced(_Entry, frozen=True, kw_only=True, tag="announced"):
    """A future run. It may begin once, with this configuration and the seed that follows from this entry's id and its nonce."""

    config: dict[str, Any]
    """All options except those of aiperf.submission.announced_run.OWN."""
    config_hash: str
    """SHA-256 of `config` in canonical JSON."""
    proposal_rules: int
    """Version of the rules by which proposals follow from the history."""
    release: str
    nonce_by: str | msgspec.UnsetType = msgspec.UNSET
    """Fingerprint (SHA256:…) of the key of another principal who signs the nonce. It is fixed here, since the announcer could
    choose among the nonces of several. Unset in logs from before nonces existed."""


class NonceSigned(_Entry, frozen=True, kw_only=True, tag="nonce"):
    """Number by another principal from which, with the announcement's id, the seed follows. Signed before the run begins."""

    announcement: str
    nonce: str
    """Signature of the announcement's id. Ed25519 signatures are deterministic, so a second request gives the same nonce."""


class RunBegun(_Entry, frozen=True, kw_only=True, tag="begun"):
    """The run that used an announcement. The driver adds this entry unsigned, before the journal exists."""

    announcement: str
    run: str
    started_unix: float
    """Start of the run in seconds since 1970. Equal to that in the first line of the run's journal, like `run`."""
    folder: str
    host: str


class RunWithdrawn(_Entry, frozen=True, kw_only=True, tag="withdrawn"):
    """Withdrawal of an announced run, with the reason. The run stays in the count of announced runs."""

    announcement: str
    reason: str


class HeadWitnessed(_Entry, frozen=True, kw_only=True, tag="witnessed"):
    """Confirmation by another principal that the previous entries existed at this time. A nonce confirms it too."""


class JournalWitnessed(_Entry, frozen=True, kw_only=True, tag="journal"):
    """State of a begun run's journal that another principal saw at this time (`witness`)."""

    announcement: str
    run: str
    lines: int
    """Whole lines of the journal."""
    hash: str
    """Hash of the last of them, which depends on all."""


NextEntry = TypeVar("NextEntry", bound=_Entry)
Signers = Mapping[str, Sequence[str]] | None
"""Principals that may have signed an entry, by its id. None if nobody named them."""
AnyEntry = RunAnnounced | NonceSigned | RunBegun | RunWithdrawn | HeadWitnessed | JournalWitnessed


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A line of the log, without its seal."""

    entry: msgspec.Raw
    signature: str
    """Signature of the entry in OpenSSH's format. Empty for `begun`, which needs no key."""


@dataclass(frozen=True, slots=True)
class SignedEntry:
    """Entry with a valid signature."""

    id: str
    entry: AnyEntry
    content: bytes
    """The signed bytes."""
    signature: str
    key: str | None
    """Fingerprint of the key that signed. None: the entry carries no signature."""


@dataclass(frozen=True, slots=True)
class Announcements:
    entries: tuple[SignedEntry, ...]
    end: int
    """Size of the complete lines in bytes."""
    torn: bytes
    """Bytes after the complete lines: a line whose writer was killed. Its id was never printed."""

    @property
    def head(self) -> str:
        """Id of the last entry. 64 zeros if the log is empty. A log that lacks an id known to others was cut."""
        return self.entries[-1].id if self.entries else ORIGIN.decode()

    def following(self, kind: type[NextEntry], at_unix: float, **fields: Any) -> NextEntry:
        """Return the next entry of the log, not yet signed and not yet written."""
        return kind(number=len(self.entries) + 1, previous=self.head, at_unix=at_unix, **fields)

    def by_id(self, wanted: str) -> SignedEntry | None:
        """Return the entry with the id `wanted`. None if there is none."""
        return next((each for each in self.entries if each.id == wanted), None)

    def withdrawn(self) -> dict[str, RunWithdrawn]:
        """Return the first withdrawal entry of each withdrawn announcement, by the announcement's id."""
        withdrawals = [each.entry for each in self.entries if isinstance(each.entry, RunWithdrawn)]
        return {each.announcement: each for each in reversed(withdrawals)}

    def nonces(self) -> dict[str, tuple[str, str]]:
        """Return the nonce of each announcement that has one, with the id of its entry, by the announcement's id."""
        entries = ((each.id, each.entry) for each in self.entries)
        return {entry.announcement: (entry.nonce, id) for id, entry in entries if isinstance(entry, NonceSigned)}

    def seed(self, announced: SignedEntry) -> int | None:
        """Return the seed of an announced run. None before its nonce."""
        nonce, _ = self.nonces().get(announced.id, (None, None))
        is_former = isinstance(announced.entry, RunAnnounced) and announced.entry.nonce_by is msgspec.UNSET
        return None if nonce is None and not is_former else announced_seed(announced.id, nonce)

    def begun(self) -> dict[str, RunBegun]:
        """Return the entry about the run that began with an announcement, by the announcement's id."""
        return {each.entry.announcement: each.entry for each in self.entries if isinstance(each.entry, RunBegun)}


def content_of(entry: AnyEntry) -> bytes:
    """Return the bytes of an entry over which the signature is made: its JSON without spaces."""
    return msgspec.json.encode(entry)


def line_of(log: Announcements, content: bytes, signature: str) -> bytes:
    """Return the bytes of the next line of a log of announcements, with its hash and a newline."""
    body = msgspec.json.encode(_Line(entry=msgspec.Raw(content), signature=signature))
    return sealed(log.head.encode(), body)[0]


def parse(content: bytes, name: str) -> Announcements:
    """Return the content of a log of announcements after a check of its hashes, its sequence and its signatures."""
    entries: list[SignedEntry] = []
    about: dict[str, set[type[AnyEntry]]] = {}
    of = (f"entry of format {FORMAT}", "site")
    log = SealedLines(
        BytesIO(content),
        _decoded,
        lambda _: None,
        lambda each: _check(each, about, log.lines + 1, log.chain.decode()),
        of=of,
    )
    try:
        for each in log:
            entries.append(replace(each, id=log.chain.decode()))
            if isinstance(each.entry, RunAnnounced):
                about[entries[-1].id] = set()
    except LineRefused as error:
        raise _damaged(name, error.before + 1, str(error)) from error
    if not entries and log.torn[: len(_BEGINNING)] != _BEGINNING[: len(log.torn)]:
        raise _damaged(name, 1, "it does not begin as `announce` writes it: this is another file")
    with ThreadPoolExecutor(_CHECKED_AT_ONCE) as pool:
        keys = list(pool.map(lambda each: signing_key(each.signature, each.content), entries))
    givers = {each.id: each.entry.nonce_by for each in entries if isinstance(each.entry, RunAnnounced)}
    for each, key in zip(entries, keys, strict=True):
        if key is None and not isinstance(each.entry, RunBegun):
            raise _damaged(
                name,
                each.entry.number,
                "its signature is not valid: the entry was changed after signing, or the key is no Ed25519 key",
            )
        if givers.get(each.id, "") == key or (
            isinstance(each.entry, NonceSigned)
            and {key, signing_key(each.entry.nonce, each.entry.announcement.encode())}
            != {givers[each.entry.announcement]}
        ):
            why = "a nonce is signed by the key that its announcement names, which is not the key of the announcement"
            raise _damaged(name, each.entry.number, why)
    signed = tuple(replace(each, key=key) for each, key in zip(entries, keys, strict=True))
    return Announcements(signed, log.end, log.torn)


def signers_of(log: Announcements, allowed: Path) -> dict[str, tuple[str, ...]]:
    """Return the names of the people that may have signed each entry, by the id of the entry."""
    signed = [each for each in log.entries if each.key is not None]
    with ThreadPoolExecutor(_CHECKED_AT_ONCE) as pool:
        names = pool.map(lambda each: principals(allowed, each.signature, each.content, each.entry.at_unix), signed)
        return dict(zip((each.id for each in signed), names, strict=True))


def _damaged(name: str, number: int, why: str) -> AnnouncementsDamaged:
    return AnnouncementsDamaged(
        f"each line of a log of announcements is signed and follows from the previous line. '{name}', line {number}: {why}. "
        "Restore the file from a copy: none of its lines may be changed, moved or removed"
    )


def _decoded(body: bytes) -> SignedEntry:
    line = msgspec.json.decode(body, type=_Line)
    must(msgspec.json.encode(line) == body, "a line is written as `announce` writes it", "other JSON")
    entry = msgspec.json.decode(line.entry, type=AnyEntry)
    return SignedEntry("", entry, bytes(line.entry), line.signature, None)


def _check(each: SignedEntry, about: dict[str, set[type[AnyEntry]]], number: int, head: str) -> None:
    entry = each.entry
    must(entry.format == FORMAT, f"this release reads format {FORMAT}", f"format {entry.format}")
    must(content_of(entry) == each.content, "an entry is written as `announce` writes it", "other JSON")
    must(len(each.content) <= _LONGEST, f"an entry has at most {_LONGEST} bytes", repr(len(each.content)))
    must(
        (entry.number, entry.previous) == (number, head),
        f"this is entry {number}, after {head[:12]!r}",
        f"entry {entry.number}, after {entry.previous[:12]!r}: a line was removed, moved or put in",
    )
    must(0 <= entry.at_unix < YEAR_10000, "at_unix is a date before the year 10000", repr(entry.at_unix))
    if isinstance(entry, RunAnnounced | HeadWitnessed):
        return
    must(entry.announcement in about, "the run was announced before it", repr(entry.announcement[:12]))
    before = about[entry.announcement]
    if isinstance(entry, NonceSigned):
        must(not before & {NonceSigned, RunBegun}, "an announcement has one nonce, before its run begins", "another")
    if isinstance(entry, RunBegun):
        must(RunBegun not in before, "an announcement serves one run", f"a second one, {entry.run!r}")
        must(not each.signature, "an entry that a run began carries no signature", "one")
    if isinstance(entry, JournalWitnessed):
        must(RunBegun in before, "a journal is witnessed after its run began", "one before")
    before.add(type(entry))
