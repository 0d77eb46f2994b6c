"""A log of announcements on disk: read, and added to by one writer at a time, a whole signed line or none."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from aiperf.errors import AnnouncementsNotWritten, NotAsAnnounced
from aiperf.files import require_file
from aiperf.journal.journal import keep
from aiperf.submission.announcements import Announcements, AnyEntry, Signed, body_of, line_of, parse
from aiperf.submission.signer import Signer

NAME = "announcements.jsonl"
LOCK_SECONDS = 30.0
_LOOK_SECONDS = 0.05


def log_path(path: Path) -> Path:
    """The file that --log names: itself, or the one in a folder."""
    return path / NAME if path.is_dir() else path


def read_log(path: Path) -> Announcements:
    """Raises:
    NotAsAnnounced: there is no such file.
    AnnouncementsDamaged: see `parse`.
    """
    try:
        require_file(path)
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise NotAsAnnounced(
            f"a site's announcements stand in one file; '{path}' cannot be read ({error.strerror}). "
            "Begin one: python -m aiperf announce --key KEY --log FILE"
        ) from error


def add(path: Path, signer: Signer, entry_of: Callable[[Announcements], AnyEntry]) -> tuple[Signed, Path | None]:
    """Signs an entry and adds it; `entry_of` makes it of the log as it stands. Where a torn last line stood, gives also the
    file beside the log in which it is kept.

    Raises:
        AnnouncementsNotWritten: another writer would not leave it, or the disk would not take the line: it stands as before.
        AnnouncementsDamaged: see `parse`.
    """
    with _locked(path) as file:
        content = file.read()
        log = parse(content, str(path))
        body = body_of(entry_of(log))
        line = line_of(body, signer.sign(body))
        # What is written is held to what is read, before anybody relies on it.
        signed = parse(content[: log.end] + line, str(path)).entries[-1]
        kept = keep(path.with_name(f"{path.name}.torn-after-line-{len(log.entries)}"), log.torn) if log.torn else None
        _write(file, path, log.end, line)
    return signed, kept


def _write(file: IO[bytes], path: Path, end: int, line: bytes) -> None:
    try:
        file.truncate(end)
        file.seek(end)
        rest = memoryview(line)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())
        if not end:
            _sync_folder(path.absolute().parent)  # the file itself may be new
    except OSError as error:
        with suppress(OSError):  # else the next writer finds a torn line, and sets it aside
            file.truncate(end)
        raise AnnouncementsNotWritten(
            f"an announcement stands on disk before a run may name it; '{path}' could not be written ({error.strerror}). "
            "Nothing was announced. Make room, then announce again"
        ) from error


def _sync_folder(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    """The file, for one writer alone; made where it is not there."""
    try:
        number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise AnnouncementsNotWritten(
            f"a log of announcements is a file in a folder that is there; '{path}' cannot be opened ({error.strerror})"
        ) from error
    with open(number, "r+b", buffering=0) as file:  # noqa: PTH123  # a descriptor, not a path
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                    raise AnnouncementsNotWritten(
                        f"a lock keeps two announcements apart; '{path}' could not be locked ({error.strerror}). Keep the log "
                        "on a file system with locks"
                    ) from error
                if time.monotonic() > deadline:
                    raise AnnouncementsNotWritten(
                        f"one announcement is written at a time; '{path}' has been locked by another process for "
                        f"{LOCK_SECONDS:.0f} s. End that process (fuser {path}), then announce again"
                    ) from error
                time.sleep(_LOOK_SECONDS)
        yield file
