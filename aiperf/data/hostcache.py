"""Cache of a data set in the memory of a host: one copy for all processes of a run, filled as they read.

The file has no name (memfd_create). A list in the run's scratch folder names the processes that have it open, and others open
it as /proc/PID/fd/N. The kernel frees it with the last process.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
import re
import secrets
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from aiperf.own_files import open_own, own_folder
from aiperf.system.control_groups import available_bytes

SHARING = "AIPERF_SHARED_IMAGES"
"""Environment variable with the folder of the processes that share their caches. Only this user can enter it. Nothing is shared
if it is unset."""

LEAST_FREE = 512 << 20
"""Bytes of memory that a cache leaves to the host and to the container. It takes no more records then."""
WATCHED_BYTES = 32 << 20
"""Bytes that a process writes between two looks at the free memory: this memory has no limit of its own."""

_ENTRY = re.compile(r"^(\d+) (\d+) (\S+)$", re.MULTILINE)
_ABSENT, _PRESENT, _CORRUPT = 0, 1, 2


class MarkedCorrupt(Exception):
    """A record (cached image) that a process of this host could not decode."""


class HostCache:
    """Byte records of known sizes, shared by a run's processes on a host. Writers of one record write the same bytes."""

    def __init__(self, key: str, sizes: NDArray[np.int64], *, is_shared: bool = True) -> None:
        """Open the records, and create them if no process of the run has.

        `key`: text that names everything that the bytes depend on. Raise NotOwn if another user can enter the folder of the
        list.
        """
        self._starts = len(sizes) + np.concatenate([[0], np.cumsum(sizes)])
        self._is_full = False
        self._unwatched = WATCHED_BYTES
        size = int(self._starts[-1])
        if is_shared and (folder := os.environ.get(SHARING)):
            with _list(Path(folder), key, sizes) as entries:
                self._file, name = _living(entries, size) or _created(size)
                entries.write(f"{os.getpid()} {self._file} {name}\n")
        else:
            self._file, _ = _created(size)
        self._release = weakref.finalize(self, os.close, self._file)
        self._map = mmap.mmap(self._file, size)
        self._state = np.frombuffer(self._map, np.uint8, len(sizes))

    def read(self, record: int) -> bytes | None:
        """Return the bytes of a record. None if no process has written it yet. Raise MarkedCorrupt if it is corrupt."""
        state = self._state[record]
        if state == _CORRUPT:
            raise MarkedCorrupt(record)
        if state == _ABSENT:
            return None
        start, stop = int(self._starts[record]), int(self._starts[record + 1])
        return os.pread(self._file, stop - start, start)

    def write(self, record: int, value: bytes | memoryview) -> None:
        """If memory is short, a record stays absent. Its state is written last, so that a killed process leaves it absent."""
        start, stop = int(self._starts[record]), int(self._starts[record + 1])
        assert len(value) == stop - start, (record, len(value), stop - start)
        self._unwatched -= len(value)
        if self._unwatched < 0 and not self._is_full:
            self._unwatched, self._is_full = WATCHED_BYTES, available_bytes() < LEAST_FREE
        if self._is_full:
            return
        try:
            written = os.pwrite(self._file, value, start)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.ENOMEM):
                raise
            self._is_full = True
            return
        if written == len(value):
            os.pwrite(self._file, bytes([_PRESENT]), record)

    def mark_corrupt(self, record: int) -> None:
        os.pwrite(self._file, bytes([_CORRUPT]), record)

    def state(self, record: int) -> bool | None:
        """True: present. False: marked as corrupt. None: not written yet."""
        return {_ABSENT: None, _PRESENT: True, _CORRUPT: False}[int(self._state[record])]

    def records(self) -> NDArray[np.uint8]:
        """Return all records in order as one array without a copy. A record that was not written yet is zero."""
        return np.frombuffer(self._map, np.uint8)[len(self._state) :]

    def close(self) -> None:
        """Close the cache in this process. Arrays of `records` stay readable. A second call has no effect."""
        self._release()


def is_held(key: str, sizes: NDArray[np.int64]) -> bool:
    """Return True if a living process of this run holds the cache of these records."""
    folder = os.environ.get(SHARING)
    if not folder:
        return False
    with _list(Path(folder), key, sizes) as entries:
        living = _living(entries, len(sizes) + int(sizes.sum()))
    if living is not None:
        os.close(living[0])
    return living is not None


@contextmanager
def _list(folder: Path, key: str, sizes: NDArray[np.int64]) -> Iterator[IO[str]]:
    digest = hashlib.sha256(f"{key} {len(sizes)} {sizes.sum()}".encode()).hexdigest()[:24]
    with own_folder(folder) as within:
        file = open_own(folder / f"images-{digest}", os.O_RDWR | os.O_CREAT, folder=within)
    with os.fdopen(file, "r+") as entries:
        fcntl.flock(entries, fcntl.LOCK_EX)
        yield entries


def _created(size: int) -> tuple[int, str]:
    """Return a new file of zeros, in which all records are absent, and its name. Only written pages take memory."""
    name = f"aiperf-images-{secrets.token_hex(16)}"
    file = os.memfd_create(name)
    os.ftruncate(file, size)
    return file, name


def _living(entries: IO[str], size: int) -> tuple[int, str] | None:
    """Open the file of the first entry with a living process. Return it and its name, None if there is none."""
    refused = None
    for pid, descriptor, name in _ENTRY.findall(entries.read()):
        path = f"/proc/{pid}/fd/{descriptor}"
        try:
            if not _is_named(path, name):  # before it is opened: the number may be another process's pipe now
                continue
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        except PermissionError as error:
            refused = refused or error
            continue
        except OSError:
            continue  # it has ended
        status = os.fstat(file)
        if _is_named(f"/proc/self/fd/{file}", name) and (status.st_uid, status.st_size) == (os.geteuid(), size):
            return file, name
        os.close(file)
    if refused is not None:
        print(
            f"images are not shared with the other processes of this host: '{refused.filename}': {refused.strerror}. "
            "This process keeps a copy of its own",
            file=sys.stderr,
        )
    return None


def _is_named(path: str, name: str) -> bool:
    return str(Path(path).readlink()) == f"/memfd:{name} (deleted)"
