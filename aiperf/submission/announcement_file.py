"""File of a site's log of announcements: read it, and add signed entries, one writer at a time."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from aiperf.atomic_files import sync_folder
from aiperf.errors import AnnouncementsNotWritten, NotAsAnnounced, explained
from aiperf.files import given_path, lock, read_bounded, require_file
from aiperf.journal.journal import keep
from aiperf.submission.announcements import Announcements, AnyEntry, SignedEntry, content_of, line_of, parse
from aiperf.submission.signatures import sign

NAME = "announcements.jsonl"
LARGEST = 32 << 20
"""Bytes of a log that is read, as in a submission. An entry has about 1 kB."""
LOCK_SECONDS = 30.0
_LOOK_SECONDS = 0.05


def log_path(word: str | Path) -> Path:
    """Return the path of the log of announcements that `word` (option --log or announcement_log=) names."""
    path = given_path(str(word))
    return path / NAME if path.is_dir() or str(word).endswith("/") else path


def make_folder(word: str) -> None:
    """Create the folder that `word` (option --log) names, if it ends with '/'. Nothing otherwise, or if it exists."""
    with explained(word, "cannot be created", "Name another folder: --log FOLDER/", AnnouncementsNotWritten):
        if word.endswith("/"):
            Path(word).mkdir(exist_ok=True)


def read_log(path: Path) -> Announcements:
    """Return the content of the log of announcements in the file `path`, after a check of all its lines."""
    fix = "Begin a log of announcements: python -m aiperf announce --key KEY --log FILE"
    with explained(path, "cannot be read", fix, NotAsAnnounced):
        return parse(read_bounded(path, LARGEST), str(path))


def add(path: Path, key: Path | None, entry_of: Callable[[Announcements], AnyEntry]) -> tuple[SignedEntry, Path | None]:
    """Sign one entry and add it to the log of announcements in the file `path`, which is created if it is missing.

    None for an entry without a signature. Return the entry, and the file next to the log to which an incomplete last line was
    moved, or None.
    """
    with _locked(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > LARGEST:
            raise AnnouncementsNotWritten(
                f"a log of announcements has at most {LARGEST} bytes, but '{path}' has {size}: begin another one "
                "with another key, --key KEY --log FILE"
            )
        content = file.read()
        log = parse(content, str(path))
        signed = content_of(entry_of(log))
        line = line_of(log, signed, "" if key is None else sign(key, signed))
        # Check the new line like a line that is read, before it is written.
        added = parse(content[: log.end] + line, str(path)).entries[-1]
        kept = keep(path.with_name(f"{path.name}.torn-after-line-{len(log.entries)}"), log.torn) if log.torn else None
        _write(file, path, log.end, line)
    return added, kept


def _write(file: IO[bytes], path: Path, end: int, line: bytes) -> None:
    fix = "Nothing was announced. Make room, then try again"
    with explained(path, "could not be written", fix, AnnouncementsNotWritten):
        try:
            file.truncate(end)
            file.seek(end)
            rest = memoryview(line)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
            if not end:
                sync_folder(path.absolute().parent)  # the file itself may be new
        except OSError:
            with suppress(OSError):  # on failure, the next writer moves the torn line to another file
                file.truncate(end)
            raise


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """Open the file, created if missing, for one writer at a time. If nothing is written, a created file is removed."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        is_new = not path.exists()
        with _opened(path) as file:
            _lock(file, path, deadline)
            if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                continue  # the writer before this one removed it
            try:
                yield file
            finally:
                if is_new and not os.fstat(file.fileno()).st_size:
                    path.unlink()
            return


def _opened(path: Path) -> IO[bytes]:
    fix = "Create its folder, or name another file for the log of announcements"
    with explained(path, "cannot be opened", fix, AnnouncementsNotWritten):
        require_file(path)
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    return open(number, "r+b", buffering=0)  # noqa: PTH123  # a descriptor, not a path


def _lock(file: IO[bytes], path: Path, deadline: float) -> None:
    while True:
        try:
            if lock(file):
                return
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise AnnouncementsNotWritten(
                    f"one announcement is written at a time. '{path}' has been locked by another process for "
                    f"{LOCK_SECONDS:.0f} s. End that process (fuser {path}), then announce again"
                ) from error
            time.sleep(_LOOK_SECONDS)
        except OSError as error:
            raise AnnouncementsNotWritten(
                f"a lock keeps two announcements apart. '{path}' could not be locked ({error.strerror}). Keep the log "
                "on a file system with locks"
            ) from error
