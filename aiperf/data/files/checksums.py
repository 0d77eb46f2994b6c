"""aiperf-checksums.jsonl: one line per checked file, appended after its check, so that an interrupted check can continue.

A line is valid while its file keeps its size and time of change.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from aiperf.data.errors import DamagedData, DataError
from aiperf.files import NO_LOCKS, require_file

FILE = "aiperf-checksums.jsonl"

_FLUSHED_EVERY = 256


class FileCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of one file's check."""

    file: str
    """Path below the set's root, with '/'. SHARD:MEMBER for a member of a shard."""
    bytes: int
    changed: int
    """Time of change in nanoseconds."""
    sha256: str
    split: str
    corrupt: str | None = None
    """The decoder's error. None if the image is valid."""


def set_checksum(lines: Iterable[FileCheck]) -> str:
    """Return the SHA-256 over "SHA256  FILE" lines (as sha256sum prints them) in the order of names.

    Independent of the set's location.
    """
    digest = hashlib.sha256()
    for line in sorted(lines, key=lambda each: each.file):
        digest.update(f"{line.sha256}  {line.file}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


class Checksums:
    """File of checked files, open for appending. Use as a context."""

    def __init__(self, path: Path) -> None:
        """Read the existing lines. An incomplete last line is dropped. Raises DamagedData, DataError."""
        self.path = path
        self.known: dict[str, FileCheck] = {}
        try:
            require_file(path)
            # created if absent, and never truncated here: another process may be writing it
            self._out = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+b")
        except OSError as error:
            raise DataError(
                f"the checksums {str(path)!r} cannot be written in the set's folder ({error.strerror}): "
                "allow writing during the check, or name another file with --checksums FILE"
            ) from error
        try:
            require_alone(self._out, path)
            complete = self._read()
        except BaseException:
            self._out.close()
            raise
        self._out.truncate(complete)
        self._out.seek(complete)
        self._pending = 0

    def add(self, line: FileCheck) -> None:
        """Append a line. It is flushed with a few hundred others."""
        self.known[line.file] = line
        self._out.write(msgspec.json.encode(line) + b"\n")
        self._pending += 1
        if self._pending >= _FLUSHED_EVERY:
            self._out.flush()
            self._pending = 0

    def __enter__(self) -> Checksums:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.close()

    def _read(self) -> int:
        """Fill `known`. Return the bytes of complete lines."""
        content = self.path.read_bytes()
        complete = content.rfind(b"\n") + 1
        decoder = msgspec.json.Decoder(FileCheck)
        for number, text in enumerate(content[:complete].splitlines(), 1):
            try:
                line = decoder.decode(text)
            except msgspec.DecodeError as error:
                raise DamagedData(
                    f"{str(self.path)!r} is damaged at line {number} ({error}): remove it, and all files are checked again"
                ) from error
            self.known[line.file] = line
        return complete


def require_alone(file: IO[bytes], path: Path) -> None:
    """Lock an open file until it is closed. Without effect on a file system without locks.

    Raises DataError: another process has the lock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataError(
            f"only one `prepare` may write {str(path)!r} at a time, and another one is running: wait until it has ended"
        ) from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
