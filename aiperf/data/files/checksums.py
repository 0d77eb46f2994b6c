"""File aiperf-checksums.jsonl: checksum and check result of each image file. An interrupted check continues from it.

One line per file is appended after its check. A line is valid while its file keeps its size and time of change.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from aiperf.data.errors import DamagedData, DataError
from aiperf.files import NO_LOCKS, name_of, require_file

FILE = "aiperf-checksums.jsonl"


class FileCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    file: str
    """Path below the set's root, with '/', as text (`files.name_text`). SHARD:MEMBER for a member of a shard."""
    bytes: int
    changed: int
    sha256: str
    """'' if the file could not be read."""
    split: str
    corrupt: str | None = None


def set_checksum(lines: Iterable[FileCheck]) -> str:
    """Return the SHA-256 of a data set over "SHA256 FILE" lines (as sha256sum prints them), sorted by file name."""
    digest = hashlib.sha256()
    for name, sha256 in sorted((name_of(line.file), line.sha256) for line in lines):
        digest.update(os.fsencode(f"{sha256}  {name}\n"))
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Checksums:
    path: Path
    known: dict[str, FileCheck]
    out: IO[bytes]

    def add(self, line: FileCheck) -> None:
        """Append the result of one file, or replace its earlier one. The line may reach the disk later."""
        self.known[line.file] = line
        self.out.write(msgspec.json.encode(line) + b"\n")


@contextmanager
def opened(path: Path) -> Iterator[Checksums]:
    """Open the checksums file `path` for appending by this process alone. An incomplete last line is removed.

    Raise DataError if the file cannot be written or another process writes it, and DamagedData if its content is damaged.
    """
    try:
        require_file(path)
        out = path.open("a+b")  # never truncated here: another process may be writing it
    except OSError as error:
        raise DataError(
            f"the checksums {str(path)!r} cannot be written in the set's folder ({error.strerror}): "
            "allow writing during the check, or name another file with --checksums FILE"
        ) from error
    with out:
        _require_alone(out, path)
        yield Checksums(path, _known(out, path), out)


def _require_alone(file: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataError(
            f"only one `prepare` may write {str(path)!r} at a time, and another one is running: wait until it has ended"
        ) from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def _known(file: IO[bytes], path: Path) -> dict[str, FileCheck]:
    file.seek(0)
    content = file.read()
    complete = content.rfind(b"\n") + 1
    file.truncate(complete)
    decoder, known = msgspec.json.Decoder(FileCheck), {}
    for number, text in enumerate(content[:complete].splitlines(), 1):
        try:
            line = decoder.decode(text)
        except msgspec.DecodeError as error:
            raise DamagedData(
                f"{str(path)!r} is damaged at line {number} ({error}): remove it, and all files are checked again"
            ) from error
        known[line.file] = line
    return known
