"""Records of a data set in this host's memory: one copy for the processes of a run, filled as they read.

A file in /dev/shm holds a byte of state for each record, then the records. Every user can create files there. So the
file has a random name and mode 0600, and the processes of a run exchange its name in a private folder (`NAMES`). Its
owner and mode are checked after each opening. The last process that closes the file removes it. If processes were
killed, the cleanup of the run removes it (`aiperf.scratch`), or the next run.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
import secrets
import stat
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aiperf.errors import BadConfiguration

SHARED_MEMORY = Path("/dev/shm")
NAMES = "AIPERF_SHARED_NAMES"
"""Environment variable: private folder in which processes exchange the names of their files. Nothing is shared if it is
unset."""

_ABSENT, _PRESENT, _CORRUPT = 0, 1, 2


class MarkedCorrupt(Exception):
    """A record that a process of this host could not decode."""


class HostCache:
    """Byte records of known sizes, shared between processes. Two processes that write the same record write the same bytes."""

    def __init__(
        self, key: str, sizes: NDArray[np.int64], folder: Path | None = None, names: Path | None = None
    ) -> None:
        """Open the records, and create them if no process of the run has.

        Args:
            key: names everything that the bytes depend on.
            sizes: bytes of each record.
            folder: a folder in memory (default: /dev/shm).
            names: the folder in which names are handed over (default: that of the environment).

        Raises:
            BadConfiguration: another user can write to the file or to the folder of names.
        """
        self._starts = len(sizes) + np.concatenate([[0], np.cumsum(sizes)])
        self._is_full = False
        folder = folder or SHARED_MEMORY
        names = names or _names_of_environment()
        self._file, self.path = _create(folder) if names is None else _open_shared(names, _digest(key, sizes), folder)
        remove_orphans(folder)
        self._let_go = weakref.finalize(self, _let_go, self._file, self.path)
        os.ftruncate(self._file, int(self._starts[-1]))  # zeros: all records are absent. Only written pages take memory
        self._map = mmap.mmap(self._file, int(self._starts[-1]))
        self._state = np.frombuffer(self._map, np.uint8, len(sizes))

    def read(self, record: int) -> bytes | None:
        """Return the record. None if it was not written yet. Raises MarkedCorrupt."""
        state = self._state[record]
        if state == _CORRUPT:
            raise MarkedCorrupt(record)
        if state == _ABSENT:
            return None
        start, stop = int(self._starts[record]), int(self._starts[record + 1])
        return os.pread(self._file, stop - start, start)

    def write(self, record: int, value: bytes | memoryview) -> None:
        """Store the record. Its state is written last, so that a process killed during the write leaves it absent.

        If shared memory is full, records stay absent and are decoded again each time.
        """
        start, stop = int(self._starts[record]), int(self._starts[record + 1])
        assert len(value) == stop - start, (record, len(value), stop - start)
        if self._is_full:
            return
        try:
            written = os.pwrite(self._file, value, start)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._is_full = True
            return
        if written == len(value):
            os.pwrite(self._file, bytes([_PRESENT]), record)

    def mark_corrupt(self, record: int) -> None:
        """Mark the record as corrupt, so that no process tries it again."""
        os.pwrite(self._file, bytes([_CORRUPT]), record)

    def state(self, record: int) -> bool | None:
        """Return True if the record is present, False if it is corrupt, None if it is absent."""
        return {_ABSENT: None, _PRESENT: True, _CORRUPT: False}[int(self._state[record])]

    def records(self) -> NDArray[np.uint8]:
        """Return all records as one array of bytes (bytes,) in shared memory, without the states."""
        return np.frombuffer(self._map, np.uint8)[len(self._state) :]

    def close(self) -> None:
        """Release the file. The last process frees the memory. Arrays returned by `records` stay readable.

        Called at the interpreter's end if necessary.
        """
        self._let_go()


def is_held(key: str, sizes: NDArray[np.int64]) -> bool:
    """Return True if a process of this run has created these records and they are still in memory."""
    names = _names_of_environment()
    if names is None:
        return False
    try:
        name = (names / _digest(key, sizes)).read_text()
    except FileNotFoundError:
        return False
    return name != "" and (SHARED_MEMORY / name).exists()


def _names_of_environment() -> Path | None:
    value = os.environ.get(NAMES)
    return Path(value) if value else None


def _digest(key: str, sizes: NDArray[np.int64]) -> str:
    return "images-" + hashlib.sha256(f"{key} {len(sizes)} {sizes.sum()}".encode()).hexdigest()[:24]


def _open_shared(names: Path, digest: str, folder: Path) -> tuple[int, Path]:
    """Open the file that another process of the run has created, or create it and publish its name."""
    status = names.stat(follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise BadConfiguration(
            f"{NAMES} must name a folder that this user owns and no other user can write to, not {str(names)!r} with "
            f"{_owner_and_mode(status)}. Unset {NAMES}: each run then creates its own folder"
        )
    handed_over = os.open(names / digest, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handed_over, fcntl.LOCK_EX)
        if name := os.read(handed_over, 256).decode():
            file = _open_verified(folder / name)
            if file is not None:
                return file, folder / name
        file, path = _create(folder)
        os.ftruncate(handed_over, 0)
        os.pwrite(handed_over, path.name.encode(), 0)
        return file, path
    finally:
        os.close(handed_over)


def _create(folder: Path) -> tuple[int, Path]:
    """Create a file with a shared lock, held as long as the file is open. A file without a lock is an orphan."""
    while True:
        path = folder / f"{_prefix()}{secrets.token_hex(16)}"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.fchmod(file, 0o600)  # the umask may have taken more
        fcntl.flock(file, fcntl.LOCK_SH)
        if os.fstat(file).st_nlink == 1:
            return file, path
        os.close(file)  # removed as an orphan between the opening and the lock


def _open_verified(path: Path) -> int | None:
    """Open a file of this user with a shared lock. None if its last user has removed it.

    Raises:
        BadConfiguration: another user created the file or can write to it.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadConfiguration(f"{_replaced(path)}: {error.strerror}. {_REMEDY}") from error
    status = os.fstat(file)
    if not _is_private(status):
        os.close(file)
        raise BadConfiguration(f"{_replaced(path)}: {_owner_and_mode(status)}. {_REMEDY}")
    fcntl.flock(file, fcntl.LOCK_SH)
    if os.fstat(file).st_nlink:
        return file
    os.close(file)
    return None


def _is_private(status: os.stat_result) -> bool:
    """Return True for a regular file that this user alone can open. A second hard link would be another user's."""
    is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return is_own and stat.S_IMODE(status.st_mode) == 0o600 and status.st_nlink <= 1


def _owner_and_mode(status: os.stat_result) -> str:
    return f"owner {status.st_uid}, mode {status.st_mode:o}, {status.st_nlink} links"


def _replaced(path: Path) -> str:
    rule = f"shared images must be in a regular file of user {os.geteuid()} with mode 100600 and one link"
    return f"{rule}, but found {str(path)!r}"


_REMEDY = "Another user may have replaced it: give /dev/shm mode 1777, or use dataset.cache=none"


def _let_go(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass  # others still use it
    else:
        path.unlink(missing_ok=True)
    os.close(file)


def _prefix() -> str:
    return f"aiperf-{os.geteuid()}-"


def pattern() -> str:
    """Return the path pattern of all of this user's files."""
    return str(SHARED_MEMORY / f"{_prefix()}*")


def remove_orphans(folder: Path | None = None) -> None:
    """Remove this user's files that no process uses (default: those in /dev/shm)."""
    for path in (folder or SHARED_MEMORY).glob(f"{_prefix()}*"):
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # removed meanwhile, or another user's
        try:
            if os.fstat(file).st_uid == os.geteuid():
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(file)
