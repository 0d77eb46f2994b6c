"""Journal of a run: append-only log of its events, each line chained to the previous one by SHA-256.

Events that arrive together are committed with one flush before any action follows from them. A torn last line (its driver was
killed while writing) is dropped with a warning. Other damage is refused with the line's number and the remedy.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import msgspec

from aiperf import errors, progress
from aiperf.atomic_files import new_draft, sync_folder
from aiperf.files import bounded_lines, lock, shown, what_is_wrong_with
from aiperf.journal import sealed_log
from aiperf.journal.events import SCHEMA, AnyEvent, EpochFinished, Halves, Interval, Progress, RunResumed, RunStarted
from aiperf.journal.legality import check_ranges, check_ranges_of_line
from aiperf.journal.validator import Validator
from aiperf.run_warning import RunWarning
from aiperf.shell_command import resuming

NAME = "journal.jsonl"

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
_decode = _decoder.decode


@dataclass(frozen=True, slots=True)
class JournalReading:
    lines: int
    end: int
    """Total length of the whole lines in bytes."""
    chain: bytes
    """Hash of the last line."""
    torn: bytes
    """Bytes after the last whole line, which a killed driver did not finish."""

    @property
    def warning(self) -> RunWarning | None:
        return torn_warning(len(self.torn), self.lines)


def torn_warning(torn_bytes: int, lines: int) -> RunWarning | None:
    """Return the warning that an incomplete last line was dropped. None for 0 bytes."""
    if not torn_bytes:
        return None
    return RunWarning(
        f"the journal's last line is incomplete, {torn_bytes} bytes, and was dropped (its driver was killed while it "
        f"wrote, or is writing now). The {lines} lines before it are complete",
        "warning",
        "nothing needs repair: figures use the complete lines, and a resumed run keeps the dropped bytes in a file next to "
        "its journal",
    )


class _Checks(Validator):
    def __init__(self, check_schema: Callable[[int], None]) -> None:
        super().__init__()
        self._check_schema = check_schema

    def _resumed(self, event: RunResumed) -> None:
        self._check_schema(event.schema)
        super()._resumed(event)


class Reader:
    """Iterable over the checked events of a journal, in order. After the iteration, `reading` has lines, bytes and hash."""

    def __init__(self, path: Path, until: int | None = None) -> None:
        match what_is_wrong_with(path):
            case None:
                pass
            case "not there":
                raise errors.NoSuchRun(
                    f"the folder of a run must contain a {NAME}. There is none at '{path}': give the folder of a run. "
                    "Runs are stored in runs/"
                )
            case wrong:
                raise errors.NotAJournal(
                    f"a journal must be a regular file. {shown(path)} is {wrong}: pass a {NAME} or a run folder"
                )
        self.path = path
        self._until = until
        self.reading = JournalReading(0, 0, sealed_log.ORIGIN, b"")
        self._log: sealed_log.SealedLines[AnyEvent] | None = None

    @property
    def _given(self) -> int:
        return 0 if self._log is None else self._log.lines

    def __iter__(self) -> Iterator[AnyEvent]:
        try:
            with self.path.open("rb", buffering=1 << 20) as file, _under_way(file):
                if (why := sealed_log.why_no_journal(file.read(sealed_log.HEAD))) is not None:
                    raise errors.NotAJournal(f"the file must be a journal. {shown(self.path)} is {why}")
                file.seek(0)
                log = self._log = sealed_log.SealedLines(
                    file,
                    _decoded,
                    self._check_first,
                    _Checks(self._check_schema).check,
                    of=(f"event of schema {SCHEMA}", "run"),
                    until=self._until,
                )
                yield from log
        except sealed_log.LineRefused as error:
            raise self.damage(error.before, str(error)) from error.__cause__
        except OSError as error:  # errors of reading only, since the caller handles the events outside
            raise errors.NotAJournal(
                f"{shown(self.path)} cannot be read after line {self._given} ({error.strerror}). "
                "Give this user permission to read it, or use a copy"
            ) from error
        self.reading = JournalReading(log.lines, log.end, log.chain, log.torn)
        if not log.lines and self._until is None:
            raise errors.NoSuchRun(
                f"a journal must have a complete first line. The first line of '{self.path}' is incomplete, "
                f"{len(log.torn)} bytes (the driver was killed while it wrote). Start another run: python -m aiperf"
            )
        if self._until is not None and log.lines < self._until:
            raise errors.JournalDamaged(
                f"resume_until is at most the number of whole lines, but found resume_until={self._until}, and "
                f"'{self.path}' has {log.lines} whole lines: give a number up to {log.lines}"
            )

    def _check_first(self, event: AnyEvent) -> None:
        if not isinstance(event, RunStarted):
            raise self.damage(0, f"a journal must begin with RunStarted. This one begins with {type(event).__name__}")
        self._check_schema(event.schema)

    def _check_schema(self, schema: int) -> None:
        if schema != SCHEMA:
            raise errors.JournalDamaged(
                f"this release reads journals of schema {SCHEMA}. '{self.path}' has schema {schema}: read it with the release "
                "that wrote it"
            )

    def damage(self, lines: int, why: str) -> errors.JournalDamaged:
        """Return the error for the line after the first `lines` lines. The journal is read again to count its lines."""
        with self.path.open("rb") as file:
            total = sum(
                1
                for line in bounded_lines(file, sealed_log.LONGEST_LINE)
                if line[-1] == 0x0A or len(line) < sealed_log.LONGEST_LINE
            )
        whole = (
            f"The {lines} lines before it are valid. Resume from there with resume_until={lines}"
            if lines
            else "No line before it is valid. Start another run: python -m aiperf"
        )
        return errors.JournalDamaged(f"journal damaged at line {lines + 1} of {total}: {why}. {whole}", lines + 1)

    def unfoldable(self, error: Exception) -> errors.JournalDamaged:
        """Return the error for the last yielded event, which is valid but cannot be applied."""
        return self.damage(self._given - 1, f"the event cannot be applied ({type(error).__name__}: {error})")


_OPTIONAL_OF_EPOCH = tuple(
    f'"{field.name}":'.encode()
    for field in msgspec.structs.fields(EpochFinished)
    if not field.required and field.name != "interval"
)
_OF_PROGRESS = 2 * len(Progress.__struct_fields__) + 4
_OF_EPOCH = 2 * (len(EpochFinished.__struct_fields__) - len(_OPTIONAL_OF_EPOCH) + len(Interval.__struct_fields__)) + 4
_OF_HALVES = 2 * len(Halves.__struct_fields__)
"""Quotation marks of a line that names each member once: of `Progress`, of an `EpochFinished` with an interval and without its
optional members, and of its halves. No value has any: none is a text, as the decoder has proved."""


def _decoded(body: bytes) -> AnyEvent:
    """One count of quotation marks proves for nearly all lines that each member is named once."""
    try:
        event = _decode(body)
    except msgspec.ValidationError:
        check_ranges_of_line(body)  # with the words of the rule
        raise
    if len(body) > sealed_log.LONGEST_TEXT:
        sealed_log.check_object(body)
        return event
    kind = type(event)
    if kind is Progress:
        is_plain = body.count(b'"') == _OF_PROGRESS and b'"at":' in body  # its only optional member
    elif kind is EpochFinished and event.interval is not None:  # type: ignore[union-attr]
        names = _OF_EPOCH if event.halves is None else _OF_EPOCH + _OF_HALVES  # type: ignore[union-attr]
        is_plain = body.count(b'"') == names + 2 * sum([name in body for name in _OPTIONAL_OF_EPOCH])
    else:
        is_plain = _encoder.encode(event) == body  # in the driver's form
    if not is_plain:
        sealed_log.check_object(body)
    return event


def read(path: Path, until: int | None = None) -> Reader:
    """Return a reader of a journal or of a run's folder. It raises NoSuchRun, NotAJournal and JournalDamaged."""
    return Reader(path / NAME if path.is_dir() else path, until)


def read_again(path: Path, leave_out: type[AnyEvent]) -> Iterator[AnyEvent | None]:
    """Yield the events once more, unchecked. None stands for those of type `leave_out`, which are not decoded."""
    decode, tail = _decoder.decode, sealed_log.TAIL
    begins = b'{"event":"' + leave_out.__name__.encode() + b'"'
    with path.open("rb", buffering=1 << 20) as file, _under_way(file):
        for line in bounded_lines(file, sealed_log.LONGEST_LINE):
            if line.startswith(begins) or line[-1] != 0x0A:
                yield None
                continue
            event = decode(line[:-tail] + b"}")
            yield None if type(event) is leave_out else event


def _under_way(file: IO[bytes]) -> AbstractContextManager[None]:
    number = file.fileno()
    return progress.under_way("journal", lambda: os.lseek(number, 0, os.SEEK_CUR), os.fstat(number).st_size)


@contextmanager
def folding(events: Iterable[AnyEvent]) -> Iterator[None]:
    """Convert errors of a fold over a `Reader`, of values that the validator does not check, to JournalDamaged."""
    try:
        yield
    except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError, AssertionError, struct.error) as error:
        if not isinstance(events, Reader):
            raise
        raise events.unfoldable(error) from error


@dataclass(frozen=True, slots=True)
class Cut:
    """Bytes removed after the line at which a run is resumed. They are kept in a file, which is never overwritten."""

    lines: int
    """Whole lines. 0 if only a torn last line was removed."""
    sha256: str
    """SHA-256 of all bytes, in hexadecimal."""
    kept: Path
    """File with the removed bytes."""


class Journal:
    def __init__(self, path: Path, reading: JournalReading | None = None, *, durable: bool = True) -> None:
        """Create and lock a new journal, or continue after `reading`.

        A new journal has no name until its first lines are on disk, so that no reader finds it empty. Bytes after the end of
        the reading are saved in a separate file (`cut`), and removed when the first append is on disk: a rollback leaves
        either the old lines or the new driver's line that records it. `durable`: flush every append. Raise FileExistsError,
        JournalInUse or JournalNotLocked.
        """
        self.path = path
        self._absolute = path.absolute()
        self._is_durable = durable
        if reading is None and os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self._draft = new_draft(self._absolute) if reading is None else None
        self._file: IO[bytes] = (self._draft or path).open("r+b", buffering=0)
        try:
            if not locked(self._file, path):
                raise errors.JournalNotLocked(
                    f"the journal must be locked against a second driver. The file system of '{path}' has no locks. Mount it "
                    "with locks (Lustre with -o flock, NFS with its lock service and without nolock), or name a folder on "
                    "another one: runs=FOLDER"
                )
        except BaseException:
            self.close()
            raise
        after = reading or JournalReading(0, 0, sealed_log.ORIGIN, b"")
        self.lines = after.lines
        self._end = after.end
        self._chain = after.chain
        self.cut = None if reading is None else self._keep_what_follows()
        self._size = os.fstat(self._file.fileno()).st_size
        """File size in bytes after the last write of this driver. No other process changes it."""

    def _keep_what_follows(self) -> Cut | None:
        self._file.seek(self._end)
        rest = self._file.read()
        self._file.seek(self._end)
        if not rest:
            return None
        # Removed bytes are kept, so that a wrong option never loses data.
        kept = keep(self._absolute.with_name(f"{self.path.name}.after-line-{self.lines}"), rest)
        return Cut(rest.count(b"\n"), hashlib.sha256(rest).hexdigest(), kept)

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Write all `events` to the disk, or none. Raise JournalNotWritten, JournalTakenAway, or IllegalLine for a range."""
        if not events:
            return
        chain, written = self._chain, bytearray()
        for event in events:
            check_ranges(event)
            line, chain = sealed_log.sealed(chain, _encoder.encode(event))
            written += line
        if self._draft is None:
            self._check_that_it_is_ours(written)
        end = self._end + len(written)
        try:
            rest = memoryview(written)
            while rest:
                rest = rest[self._file.write(rest) :]
            if self._size > end:
                self._file.truncate(end)  # remove the rest of the cut bytes
            if self._is_durable:
                os.fsync(self._file.fileno())
            if self._draft is not None:
                self._publish(self._draft)
        except OSError as error:
            raise self._not_written(error) from error
        self._chain = chain
        self._end = self._size = end
        self.lines += len(events)

    def _publish(self, draft: Path) -> None:
        try:
            os.link(draft, self._absolute)
        except OSError as error:
            if os.path.lexists(self._absolute):
                raise errors.JournalInUse(
                    f"a journal has one driver. Another driver has created '{self.path}' meanwhile: start a run in another "
                    "folder"
                ) from error
            if error.errno not in _NO_HARD_LINKS:
                raise
            draft.rename(self._absolute)
        with suppress(OSError):  # a second name of the journal harms nobody
            draft.unlink(missing_ok=True)
        self._draft = None
        if self._is_durable:
            sync_folder(self._absolute.parent)

    def continuation(self) -> str:
        return resuming(self.path.parent)

    def _not_written(self, error: OSError) -> errors.JournalNotWritten:
        left = ""
        try:
            self._file.truncate(self._end)
            self._file.seek(self._end)
            self._size = self._end
        except OSError as again:  # reported with the first error, which is the cause
            left = f". The incomplete line could not be removed ({again.strerror}). A reader drops it"
        remedy = "Make room" if error.errno in _NO_ROOM else "Make it writable (chattr -i, mount -o remount,rw)"
        return errors.JournalNotWritten(
            f"events must be on disk before the run acts on them. '{self.path}' could not be written "
            f"({error.strerror}){left}. {remedy}, then: {self.continuation()}"
        )

    def _check_that_it_is_ours(self, written: bytearray) -> None:
        opened = os.fstat(self._file.fileno())
        try:
            named = self._absolute.stat()
        except OSError as error:
            raise self._taken_away(f"was removed ({error.strerror})", written, is_whole=True) from error
        if (named.st_dev, named.st_ino) != (opened.st_dev, opened.st_ino):
            raise self._taken_away("was replaced by another file (as sed -i and editors do)", written, is_whole=True)
        if opened.st_size != self._size:
            what = f"was changed: it has {opened.st_size} bytes, and {self._size} were written"
            raise self._taken_away(what, written, is_whole=False)

    def _taken_away(self, what: str, written: bytearray, *, is_whole: bool) -> errors.JournalTakenAway:
        """Save what can be saved, and return the error. `is_whole`: the written file can be saved completely."""
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
            saved = "its content could not be saved anywhere"
        elif is_whole:
            saved = (
                f"its whole content, with the last events, is saved: {shlex.join(['mv', str(kept), str(self.path)])}"
            )
        else:
            saved = f"the lines after line {self.lines} are saved in '{kept}'"
            if os.fstat(self._file.fileno()).st_size > self._size:
                path, new = shlex.quote(str(self.path)), shlex.quote(str(kept))
                saved += (
                    f". To repair: cp {path} {path}.changed && truncate -s {self._size} {path} && cat {new} >> {path}"
                )
        return errors.JournalTakenAway(
            f"only its driver may change the journal of a running run. '{self.path}' {what}. The run stops: {saved}. "
            f"To resume: {resuming(self.path.parent)}"
        )

    def close(self) -> None:
        self._file.close()
        if self._draft is not None:
            self._draft.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK})
"""Errors of link(2) on a file system without hard links."""


def locked(file: IO[bytes], path: Path) -> bool:
    """Lock an open file until it is closed. False without locks. Raise JournalInUse, or JournalNotLocked if it failed."""
    fix = "A second driver must be kept out: use a folder on a file system with locks, runs=FOLDER"
    with errors.explained(path, "could not be locked", fix, errors.JournalNotLocked):
        try:
            return lock(file)
        except BlockingIOError as error:
            raise errors.JournalInUse(
                f"a journal has one driver. Another driver is writing '{path}': end that run first"
            ) from error


def keep(path: Path, content: bytes) -> Path:
    """Write a new file at the first free of PATH, PATH.2, PATH.3, …, flush it to the disk and return its path."""
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
        sync_folder(free.parent)
        return free
