"""Records of a data set in this host's memory, one copy for all its processes, filled by whoever comes to a record first.

A file in shared memory: a byte of state for each record, then the records. It is removed by the last process that closes it;
one that killed processes leave is removed by whoever cleans up after their run (`aiperf.scratch`), or by the next run.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SHARED_MEMORY = Path("/dev/shm")

_ABSENT, _PRESENT, _CORRUPT = 0, 1, 2


def cache_path(key: str, sizes: NDArray[np.int64], folder: Path | None = None) -> Path:
    """Where the records of that key and those sizes lie; it exists while a process uses them."""
    digest = hashlib.sha256(f"{key} {len(sizes)} {sizes.sum()}".encode()).hexdigest()[:24]
    return (folder or SHARED_MEMORY) / f"{_prefix()}{digest}"


class MarkedCorrupt(Exception):
    """A record that some process of this host found it cannot make."""


class HostCache:
    """Byte records of known sizes, shared between processes. Two that write the same record write the same bytes."""

    def __init__(self, key: str, sizes: NDArray[np.int64], folder: Path | None = None) -> None:
        """`key` tells sets apart: it must name everything the bytes depend on. `sizes`: bytes of each record; `folder`: in
        memory (/dev/shm)."""
        self._starts = len(sizes) + np.concatenate([[0], np.cumsum(sizes)])
        self.path = cache_path(key, sizes, folder)
        self._is_full = False
        remove_orphans(self.path.parent, keep=self.path)
        self._file = _open_shared(self.path)
        self._let_go = weakref.finalize(self, _let_go, self._file, self.path)
        os.ftruncate(self._file, int(self._starts[-1]))  # zeros: no record is there; takes memory only where written
        self._map = mmap.mmap(self._file, int(self._starts[-1]))
        self._state = np.frombuffer(self._map, np.uint8, len(sizes))

    def read(self, record: int) -> bytes | None:
        """The record; None where nobody has written it yet. Raises MarkedCorrupt."""
        state = self._state[record]
        if state == _CORRUPT:
            raise MarkedCorrupt(record)
        if state == _ABSENT:
            return None
        start, stop = int(self._starts[record]), int(self._starts[record + 1])
        return os.pread(self._file, stop - start, start)

    def write(self, record: int, value: bytes | memoryview) -> None:
        """Keeps the record; its state last, so that a process killed half-way leaves it absent.

        Once shared memory is full (others may have taken what was free), records stay absent and are made anew each time.
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
        """No process need try again to make this record."""
        os.pwrite(self._file, bytes([_CORRUPT]), record)

    def state(self, record: int) -> bool | None:
        """True: there; False: corrupt; None: not there yet."""
        return {_ABSENT: None, _PRESENT: True, _CORRUPT: False}[int(self._state[record])]

    def records(self) -> NDArray[np.uint8]:
        """All records as one array of bytes in shared memory, without the states."""
        return np.frombuffer(self._map, np.uint8)[len(self._state) :]

    def close(self) -> None:
        """Lets go of it; the last process to do so gives the memory back. Arrays made by `records` stay readable.

        Done at the interpreter's end too, where nobody did it before.
        """
        self._let_go()


def _open_shared(path: Path) -> int:
    """Opens with a shared lock, held as long as the file is open: a lock that nobody holds means an orphan."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(file, fcntl.LOCK_SH)
        try:
            if path.stat().st_ino == os.fstat(file).st_ino:
                return file
        except FileNotFoundError:
            pass
        os.close(file)  # removed by its last user between our opening and our locking


def _let_go(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass  # others still use it
    else:
        path.unlink(missing_ok=True)
    os.close(file)


def _prefix() -> str:
    return f"aiperf-{os.getuid()}-"


def pattern() -> str:
    """Of the paths of all of this user's files."""
    return str(SHARED_MEMORY / f"{_prefix()}*")


def remove_orphans(folder: Path = SHARED_MEMORY, keep: Path | None = None) -> None:
    """Removes this user's files that no process uses."""
    for path in folder.glob(f"{_prefix()}*"):
        if path == keep:
            continue
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # gone meanwhile, or not ours
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(file)
