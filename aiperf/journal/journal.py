"""The append-only journal of a run: one JSON object a line, each chained to the one before by SHA-256.

Events that arrive together are committed together, with one flush, before anything acts on them. A torn last line (a driver
killed while it wrote) is dropped and said; damage anywhere else is refused with the line's number and the remedy, and so is
a line that no run can write (`validator.py`).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shlex
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import msgspec

from aiperf.errors import (
    JournalDamaged,
    JournalInUse,
    JournalNotLocked,
    JournalNotWritten,
    JournalTakenAway,
    NoSuchRun,
    NotAJournal,
)
from aiperf.files import shown, what_is_wrong_with
from aiperf.journal.events import SCHEMA, SCHEMAS_READ, AnyEvent, RunResumed, RunStarted
from aiperf.journal.lawful import Unlawful
from aiperf.journal.lease import NO_LOCKS, Lease, refuse_if_leased
from aiperf.journal.other_files import HEAD, other_file
from aiperf.journal.validator import Validator
from aiperf.run_warning import RunWarning
from aiperf.typed import resuming

NAME = "journal.jsonl"

_HEX = 64
_SEAL = b',"chain":"'
_TAIL = len(_SEAL) + _HEX + len(b'"}')
_ORIGIN = b"0" * _HEX
"""What the first line is chained to."""

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a reading of a journal ended."""

    lines: int
    """Whole lines."""
    end: int
    """Bytes of them."""
    chain: bytes
    """The last line's hash."""
    torn: bytes
    """What stood after them: a line that a killed driver did not finish."""

    @property
    def warning(self) -> RunWarning | None:
        """That a line was dropped; None: none was."""
        return torn_warning(len(self.torn), self.lines)


def torn_warning(torn_bytes: int, lines: int) -> RunWarning | None:
    """What everything that reads a journal says of a last line that was dropped, after so many whole ones; None: none was."""
    if not torn_bytes:
        return None
    return RunWarning(
        f"the journal's last line is torn after {torn_bytes} bytes and was dropped (its driver was killed while it "
        f"wrote, or writes now); the {lines} lines before it are whole",
        "warning",
        "nothing needs repair: figures are of the whole lines, and a run that is resumed keeps the torn bytes in a file beside "
        "its journal",
    )


def chained_hash(chain: bytes, body: bytes) -> bytes:
    """The chain after a line: SHA-256, in hexadecimal, over the chain before it and the line's own JSON."""
    return hashlib.sha256(chain + body).hexdigest().encode()


class Reader:
    """Reads a journal from its beginning, checking every line; `reading` says where it ended."""

    def __init__(self, path: Path, until: int | None = None) -> None:
        match what_is_wrong_with(path):
            case None:
                pass
            case "not there":
                raise NoSuchRun(f"a run is a folder with a {NAME}; there is none at '{path}'. Runs lie under runs/")
            case wrong:
                raise NotAJournal(f"a run's journal is a file; {shown(path)} is {wrong}: put the journal there")
        self.path = path
        self._until = until
        self._reading = Reading(0, 0, _ORIGIN, b"")
        self._given = 0

    @property
    def reading(self) -> Reading:
        """Where the reading ended; before it has, its beginning."""
        return self._reading

    def __iter__(self) -> Iterator[AnyEvent]:
        try:
            yield from self._events()
        except OSError as error:  # of reading alone: what is done with an event is done outside
            raise NotAJournal(
                f"a journal is read whole; {shown(self.path)} cannot be after line {self._given} ({error.strerror}). "
                "Let this user read it, or take it from a copy"
            ) from error

    def _events(self) -> Iterator[AnyEvent]:
        chain, lines, end, until = _ORIGIN, 0, 0, self._until
        decode, sha256, tail = _decoder.decode, hashlib.sha256, _TAIL + 1
        check = Validator().check
        torn = b""
        with self.path.open("rb", buffering=1 << 20) as file:
            if (other := other_file(file.read(HEAD))) is not None:
                raise NotAJournal(f"a run is read from its journal; {shown(self.path)} is {other.what}: {other.remedy}")
            file.seek(0)
            # A million lines must not take long: what is wrong with a line is found out only once one is wrong.
            for line in file:
                if lines == until:
                    break
                if line[-1] != 0x0A:
                    torn = line
                    break
                body = line[:-tail] + b"}"
                follows = sha256(chain + body).hexdigest().encode()
                if line[-tail:] != _SEAL + follows + b'"}\n':
                    raise self.damage(lines, _why_unsealed(line))
                try:
                    event = decode(body)
                    if lines == 0:
                        self._check_first(event)
                    elif type(event) is RunResumed:
                        self._check_schema(event.schema)
                    check(event)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise self.damage(lines, f"it is no event of schema {SCHEMA} ({error})") from error
                except Unlawful as error:
                    raise self.damage(lines, f"no run can write it: {error}") from error
                chain = follows
                lines += 1
                end += len(line)
                self._given = lines
                yield event
        self._reading = Reading(lines, end, chain, torn)
        if not lines and until is None:
            raise NoSuchRun(
                f"a run begins with the first whole line of its journal; '{self.path}' holds none: its first line is torn, "
                f"after {len(torn)} bytes (a driver killed while it wrote). Begin another: python -m aiperf"
            )
        if until is not None and lines < until:
            raise JournalDamaged(f"resume_until={until}, but '{self.path}' has only {lines} whole lines")

    def _check_first(self, event: AnyEvent) -> None:
        if not isinstance(event, RunStarted):
            raise self.damage(0, f"a journal begins with RunStarted, this one with {type(event).__name__}")
        self._check_schema(event.schema)

    def _check_schema(self, schema: int) -> None:
        if schema not in SCHEMAS_READ:
            raise JournalDamaged(
                f"'{self.path}' has schema {schema}; this release reads schemas "
                f"{SCHEMAS_READ[0]} to {SCHEMAS_READ[-1]}. Read it with the release that wrote it"
            )

    def damage(self, lines: int, why: str) -> JournalDamaged:
        """What is wrong with the line after so many whole ones."""
        with self.path.open("rb") as file:
            total = sum(1 for _ in file)
        whole = (
            f"the {lines} events before it are whole. To go on from there: resume_until={lines}"
            if lines
            else "nothing before it is whole. Begin another run: python -m aiperf"
        )
        return JournalDamaged(f"journal damaged at line {lines + 1} of {total}: {why}; {whole}", lines + 1)

    def unfoldable(self, error: Exception) -> JournalDamaged:
        """What is wrong with the line that was given last, which keeps all laws and cannot be taken in."""
        return self.damage(self._given - 1, f"it cannot be taken in ({type(error).__name__}: {error})")


def _why_unsealed(line: bytes) -> str:
    if line.endswith(b"\r\n"):
        return "it ends in CR LF, which no line of a journal does (an editor, or a transfer as text)"
    if line[-_TAIL - 1 : -_HEX - 3] != _SEAL:
        return "it carries no hash"
    return "its hash does not follow from the line before it: one of the two was changed"


def read(path: Path, until: int | None = None) -> Reader:
    """The events of a journal, in order; a run's folder will do for the path.

    Raises:
        NoSuchRun: there is no journal.
        NotAJournal: what lies there is something else, or cannot be read.
        JournalDamaged: a line does not follow from the one before it (anything but a torn last line).
    """
    return Reader(path / NAME if path.is_dir() else path, until)


def read_again(path: Path, leave_out: type[AnyEvent]) -> Iterator[AnyEvent | None]:
    """The events of a journal that a `Reader` has read to its end, once more and unchecked: for a second look at a long one.

    Lines of one kind are not even decoded, where they are written as a driver writes them, and come as None; so does what
    stands after the last whole line.
    """
    decode, tail = _decoder.decode, _TAIL + 1
    begins = b'{"event":"' + leave_out.__name__.encode() + b'"'
    with path.open("rb", buffering=1 << 20) as file:
        for line in file:
            if line.startswith(begins) or line[-1] != 0x0A:
                yield None
                continue
            event = decode(line[:-tail] + b"}")
            yield None if type(event) is leave_out else event


@contextmanager
def folding(events: Iterable[AnyEvent]) -> Iterator[None]:
    """Around a fold of events: where a journal's own line makes it fail, the line is named, not the place in our code.

    The one place that does so. What the validator refuses never comes here; what comes here is a value that only this fold
    looks at (the limits of a configuration, a morph), or a fault of ours.
    """
    try:
        yield
    except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError, AssertionError, struct.error) as error:
        if not isinstance(events, Reader):
            raise
        raise events.unfoldable(error) from error


@dataclass(frozen=True, slots=True)
class Cut:
    """What stood after the line that a run is taken up at. It is kept beside the journal, and never overwritten."""

    lines: int
    """Whole lines of it; 0: a torn last line alone, as a killed driver leaves it."""
    sha256: str
    """Of all its bytes, in hexadecimal."""
    kept: Path


class Journal:
    """A journal that is written; one driver at a time. Close it, or use it in a `with` block."""

    def __init__(
        self,
        path: Path,
        reading: Reading | None = None,
        *,
        durable: bool = True,
        run: Path | None = None,
        why_not_ours: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Opens a new journal, or one that was read to its end (`reading`), whose torn last line is then cut off.

        `durable`: every append is flushed to the disk itself. A simulated run, which nobody loses, may do without.

        `run`: the run's folder, where the journal lies elsewhere. `why_not_ours`: asked before each commit, what else there is
        that keeps this driver from writing it.

        What stands after the reading's end is kept in a file of its own (`cut`), and goes when the first append is on disk:
        whoever rolls a run back leaves either the old lines or the new driver's line that tells of them.

        Raises:
            JournalInUse: another driver holds it.
            JournalNotLocked: it can be kept by neither lock nor lease.
        """
        self.path = path
        self.run = path.parent if run is None else run
        self._why_not_ours = why_not_ours
        self._absolute = path.absolute()
        self._is_durable = durable
        self._file: IO[bytes] = path.open("xb+" if reading is None else "r+b", buffering=0)
        try:
            self._lease = held(self._file, path)
        except BaseException:
            self._file.close()
            if reading is None:
                path.unlink()  # nothing stands in it, and nobody else could have made it
            raise
        after = reading or Reading(0, 0, _ORIGIN, b"")
        self.lines = after.lines
        self._end = after.end
        self._chain = after.chain
        self.cut = None if reading is None else self._keep_what_follows()
        self._size = os.fstat(self._file.fileno()).st_size
        """As this driver left it: nobody else changes it."""

    @property
    def committed_bytes(self) -> int:
        """So much of the file is the journal."""
        return self._end

    def _keep_what_follows(self) -> Cut | None:
        self._file.seek(self._end)
        rest = self._file.read()
        self._file.seek(self._end)
        if not rest:
            return None
        # What is cut off is kept: bad input never costs data.
        kept = keep(self._absolute.with_name(f"{self.path.name}.after-line-{self.lines}"), rest)
        return Cut(rest.count(b"\n"), hashlib.sha256(rest).hexdigest(), kept)

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Commits events that arrived together: all of them, with one flush, or none.

        Raises:
            JournalNotWritten: the disk would not take them; the journal is as it was.
            JournalTakenAway: it is not the file any more that this driver wrote.
        """
        if not events:
            return
        chain, written = self._chain, bytearray()
        for event in events:
            body = _encoder.encode(event)
            chain = chained_hash(chain, body)
            written += body[:-1] + _SEAL + chain + b'"}\n'
        self._check_that_it_is_ours(written)
        end = self._end + len(written)
        try:
            rest = memoryview(written)
            while rest:
                rest = rest[self._file.write(rest) :]
            if self._size > end:
                self._file.truncate(end)  # of what was cut, the part that this line did not cover
            if self._is_durable:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise self._not_written(error) from error
        self._chain = chain
        self._end = self._size = end
        self.lines += len(events)

    def _not_written(self, error: OSError) -> JournalNotWritten:
        left = ""
        try:
            self._file.truncate(self._end)
            self._file.seek(self._end)
            self._size = self._end
        except OSError as again:  # a disk or a file that takes nothing at all: said, since the first error is the cause
            left = f"; what was written of it could not be taken back ({again.strerror}), reading drops a torn line"
        remedy = "Make room" if error.errno in _NO_ROOM else "Let it be written (chattr -i, mount -o remount,rw)"
        return JournalNotWritten(
            f"what happened must stand on disk before anything acts on it; '{self.path}' "
            f"could not be written ({error.strerror}){left}. {remedy}, then: {self._way_on()}"
        )

    def _way_on(self) -> str:
        """What a user does with a run whose driver could not write, in words."""
        return resuming(self.run)

    def _check_that_it_is_ours(self, written: bytearray) -> None:
        """A driver whose file was removed, replaced or cut would work on for hours, for nothing."""
        try:
            other = None if self._lease is None else self._lease.overtaken_by()
            why = self._why_not_ours() if other is None else f"was taken over by {other}"
        except OSError as error:
            raise self._not_written(error) from error
        if why is not None:
            raise self._taken_away(why, written, is_whole=False)
        mine = os.fstat(self._file.fileno())
        try:
            there = self._absolute.stat()
        except OSError as error:
            raise self._taken_away(f"was removed ({error.strerror})", written, is_whole=True) from error
        if (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            raise self._taken_away("was replaced by another file (as sed -i and editors do)", written, is_whole=True)
        if mine.st_size != self._size:
            what = f"was changed: it has {mine.st_size} bytes, and {self._size} were written"
            raise self._taken_away(what, written, is_whole=False)

    def _taken_away(self, what: str, written: bytearray, *, is_whole: bool) -> JournalTakenAway:
        """`is_whole`: the file that was written is still open here, and all of it can be kept; else the new lines alone."""
        name = f"{self.path.name}.{'saved' if is_whole else 'unwritten'}-after-line-{self.lines}"
        content = (os.pread(self._file.fileno(), self._end, 0) if is_whole else b"") + bytes(written)
        kept = None
        for folder in (self._absolute.parent, Path(tempfile.gettempdir())):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                kept = keep(folder / name, content)
                break
            except OSError:
                continue
        if kept is None:
            saved = "what it held could be kept nowhere"
        elif is_whole:
            saved = f"the whole of it, with what happened last, is kept there: {shlex.join(['mv', str(kept), str(self.path)])}"
        else:
            saved = f"the lines that were to follow line {self.lines} are kept in '{kept}'"
        return JournalTakenAway(
            f"a journal is its driver's alone while a run goes on; '{self.path}' {what}. The run stops; {saved}. "
            f"To go on: {self._way_on()}"
        )

    def close(self) -> None:
        """Lets another driver write it."""
        if self._lease is not None:
            with suppress(OSError):  # then the next driver waits until it is over
                self._lease.end()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def held(file: IO[bytes], path: Path) -> Lease | None:
    """Keeps a second driver out of a file, by the kernel's lock; where the file system keeps none, by a lease.

    Raises:
        JournalInUse: another driver holds it.
        JournalNotLocked: it can be kept by neither.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise _unlocked(path, error) from error
    else:
        refuse_if_leased(path.absolute())
        return None
    try:
        return Lease.taken(path.absolute())
    except OSError as error:
        raise JournalNotLocked(
            f"a lock on the journal keeps a second driver out; the file system of '{path}' keeps none, and would not "
            f"take a lease beside it either ({error.strerror}). Have it mounted with locks (Lustre: -o flock; NFS: without "
            "nolock, its lock service running), or take a folder on another file system: runs=FOLDER"
        ) from error


def _unlocked(path: Path, error: OSError) -> JournalInUse | JournalNotLocked:
    if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
        return JournalInUse(f"one driver writes a journal; '{path}' is being written by another. End that run first")
    return JournalNotLocked(
        f"a lock on the journal keeps a second driver out; '{path}' could not be locked ({error.strerror}). "
        "Fix that, or take a folder on another file system: runs=FOLDER"
    )


def keep(path: Path, content: bytes) -> Path:
    """Writes a file that was not there, under this name or the next free one of NAME.2, NAME.3, …; gives its name."""
    number = 1
    while True:
        free = path if number == 1 else path.with_name(f"{path.name}.{number}")
        try:
            file = free.open("xb")
        except FileExistsError:
            number += 1
            continue
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(free.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return free
