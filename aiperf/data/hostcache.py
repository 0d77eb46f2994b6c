"""Cache of a data set in the memory of a host (/dev/shm): one copy for all processes of a run, filled as they read.

A file in /dev/shm holds a byte of state for each record, then the records. Every user can create files there. The files of a
run are therefore in a folder that only this user can enter. The last process that closes a file removes it. If processes were
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
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aiperf.errors import BadConfiguration

SHARED_MEMORY = Path("/dev/shm")
SHARING = "AIPERF_SHARED_IMAGES"
"""Environment variable with the name of the processes that share their files. Nobody else can guess it. Nothing is shared if it
is unset."""

_ABSENT, _PRESENT, _CORRUPT = 0, 1, 2


class MarkedCorrupt(Exception):
    """A record (cached image) that a process of this host could not decode."""


class HostCache:
    """Cache of byte records (encoded images or their pixels) of known sizes, shared between the processes of a run on a host.

    Two processes that write the same record write the same bytes.
    """

    def __init__(self, key: str, sizes: NDArray[np.int64], *, is_shared: bool = True) -> None:
        """Open the records, and create them if no process of the run has.

        `key`: text that names everything that the bytes depend on. `sizes`: bytes of each record. `is_shared`: False: in memory
        of this process only, for a host with a small /dev/shm. Raise BadConfiguration if another user can enter the folder of
        the files.
        """
        self._starts = len(sizes) + np.concatenate([[0], np.cumsum(sizes)])
        self._is_full = False
        if is_shared:
            path = _folder(_group() or secrets.token_hex(16)) / _digest(key, sizes)
            self._file = _opened(path)
            remove_orphans()
            release = partial(_released, self._file, path)
        else:
            self._file = os.memfd_create("aiperf-images")
            release = partial(os.close, self._file)
        self._release = weakref.finalize(self, release)
        os.ftruncate(self._file, int(self._starts[-1]))  # zeros: all records are absent. Only written pages take memory
        self._map = mmap.mmap(self._file, int(self._starts[-1]))
        self._state = np.frombuffer(self._map, np.uint8, len(sizes))

    def read(self, record: int) -> bytes | None:
        """Return the bytes of a record. None if no process has written the record yet.

        `record`: number of the record, from 0. Raise MarkedCorrupt if a process marked the record as corrupt.
        """
        state = self._state[record]
        if state == _CORRUPT:
            raise MarkedCorrupt(record)
        if state == _ABSENT:
            return None
        start, stop = int(self._starts[record]), int(self._starts[record + 1])
        return os.pread(self._file, stop - start, start)

    def write(self, record: int, value: bytes | memoryview) -> None:
        """Store a record for all processes. `record`: number from 0. `value`: must have the declared size of the record.

        Its state is written last. A process that is killed during the write therefore leaves the record absent. If shared
        memory is full, the record also stays absent, and no error is raised.
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
        """Mark a record as corrupt for all processes. `read` then raises MarkedCorrupt. `record`: number from 0."""
        os.pwrite(self._file, bytes([_CORRUPT]), record)

    def state(self, record: int) -> bool | None:
        """Return the state of a record: True if it is present, False if it is marked as corrupt, None if not written yet."""
        return {_ABSENT: None, _PRESENT: True, _CORRUPT: False}[int(self._state[record])]

    def records(self) -> NDArray[np.uint8]:
        """Return the bytes of all records in order as one array, uint8, shape (bytes,), without a copy.

        A record that was not written yet is zero. Later writes appear in the array.
        """
        return np.frombuffer(self._map, np.uint8)[len(self._state) :]

    def close(self) -> None:
        """Close the cache in this process. The last process that closes it removes the file.

        The memory is freed when no process maps the file any more: this object and arrays of `records` keep it, and the arrays
        stay readable. The interpreter's end also closes the cache. A second call has no effect.
        """
        self._release()


def is_held(key: str, sizes: NDArray[np.int64]) -> bool:
    """Return True if a process of this run has created the cache of these records, and the cache still exists.

    `key`: text that names everything that the bytes depend on. `sizes`: bytes of each record. False if the run shares nothing
    (no environment variable AIPERF_SHARED_IMAGES).
    """
    group = _group()
    return group is not None and (_folder(group) / _digest(key, sizes)).exists()


def _group() -> str | None:
    return os.environ.get(SHARING) or None


def _folder(group: str) -> Path:
    return SHARED_MEMORY / f"{_prefix()}{hashlib.sha256(group.encode()).hexdigest()[:32]}"


def _digest(key: str, sizes: NDArray[np.int64]) -> str:
    return hashlib.sha256(f"{key} {len(sizes)} {sizes.sum()}".encode()).hexdigest()[:24]


def _opened(path: Path) -> int:
    """Open or create a file with a shared lock, held as long as the file is open. A file without a lock is an orphan."""
    while True:
        try:
            with suppress(FileExistsError):
                path.parent.mkdir(0o700)
            _require_private(path.parent)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue  # its last user has removed the folder
        fcntl.flock(file, fcntl.LOCK_SH)
        if os.fstat(file).st_nlink:
            return file
        os.close(file)  # its last user has removed it between the opening and the lock


def _require_private(folder: Path) -> None:
    """Raise BadConfiguration unless only this user can enter the folder."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise BadConfiguration(
            f"shared images must be in a folder of user {os.geteuid()} with mode 40700, but {str(folder)!r} has owner "
            f"{status.st_uid} and mode {status.st_mode:o}. Another user may have made it: give {SHARED_MEMORY} mode 1777, or "
            "use dataset.cache=none"
        )


def _released(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass  # others still use it
    else:
        _remove(path)
    os.close(file)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    with suppress(OSError):  # other files are in the folder
        path.parent.rmdir()


def _prefix() -> str:
    return f"aiperf-{os.geteuid()}-"


def pattern() -> str:
    """Return the glob pattern of the paths of this user's cache files in /dev/shm."""
    return str(SHARED_MEMORY / f"{_prefix()}*" / "*")


def remove_orphans() -> None:
    """Remove this user's cache files in /dev/shm that no process has open, such as those of killed processes."""
    for path in SHARED_MEMORY.glob(f"{_prefix()}*/*"):
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue  # removed meanwhile, or another user's
        try:
            if os.fstat(file).st_uid == os.geteuid():
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(file)
