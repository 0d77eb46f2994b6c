"""Files of 16-bit tokens: raw as nanoGPT writes them, or shards with llm.c's header. Found, mapped, and read through once.

`aiperf-tokens.json` in the folder has what `prepare` found: size, time of change, SHA-256 and largest token of each file.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from aiperf.atomic_files import replace_file
from aiperf.data.errors import DamagedData, MissingData
from aiperf.errors import conflict
from aiperf.files import open_regular, read_bounded, refused, shown

RECORD = "aiperf-tokens.json"
_LARGEST_RECORD = 16 << 20
_RAW = {"train": "train.bin", "val": "val.bin"}
_HEADER_BYTES = 1024
_MAGIC, _VERSION = 20240520, 1
"""First two of the 256 int32 of llm.c's header. The third is the number of tokens."""
_CHUNK = 1 << 22
Tokens = NDArray[np.uint16] | NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class TokenFile:
    path: Path
    header: int
    """Bytes before the first token."""
    tokens: int
    bytes: int
    changed: int
    """Time of change in nanoseconds."""

    def mapped(self) -> tuple[NDArray[np.uint16], mmap.mmap]:
        """Return all tokens without reading them, and the map that holds them, which must live as long."""
        with open_regular(self.path) as file:
            held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if len(held) < self.bytes:
            raise DamagedData(_fault(self.path, f"{len(held)} bytes, fewer than before", "is complete"))
        return np.frombuffer(held, "<u2", self.tokens, self.header), held


def _fault(path: Path, found: str, rule: str) -> str:
    return f"a file of tokens {rule}, but {shown(path)} has {found}: write it again, or remove it"


def files_of(root: Path) -> dict[str, list[TokenFile]]:
    """Return the files of the splits 'train' and 'val', after checking sizes and headers."""
    names = sorted(path.name for path in root.iterdir() if path.name.endswith(".bin"))
    raw = {split: [name] for split, name in _RAW.items() if name in names}
    headed = {
        split: found
        for split in _RAW
        if (found := [name for name in names if split in re.split(r"[_.-]", name) and name not in _RAW.values()])
    }
    if raw and headed:
        without, with_header = next(iter(raw.values()))[0], next(iter(headed.values()))[0]
        fix = "Move one of the two into another folder"
        raise conflict(f"{without!r} without a header", f"{with_header!r} with one in {shown(root)}", fix)
    chosen = raw or headed
    for split in _RAW:
        if split not in chosen:
            raise MissingData(
                f"a set of tokens has {_RAW[split]}, or shards *{split}*.bin with llm.c's header, but found none in "
                f"{shown(root)}: write them, or correct dataset.root"
            )
    return {split: [_checked(root / name, is_raw=bool(raw)) for name in chosen[split]] for split in _RAW}


def _checked(path: Path, *, is_raw: bool) -> TokenFile:
    try:
        with open_regular(path) as file:
            status, start = os.fstat(file.fileno()), file.read(12)
    except OSError as error:
        raise DamagedData(f"a file of tokens must be readable. {refused(error)}") from error
    magic, version, tokens = np.frombuffer(start.ljust(12, b"\0"), "<i4").tolist()
    size, header = status.st_size, 0 if is_raw else _HEADER_BYTES
    if not size:
        raise DamagedData(_fault(path, "0 bytes", "is not empty"))
    if is_raw:
        if size % 2:
            found = f"{size} bytes, half a token at byte {size - 1}"
            raise DamagedData(_fault(path, found, "has 2 bytes for each token"))
        if magic == _MAGIC:
            raise DamagedData(
                f"{path.name} is without a header, but {shown(path)} begins with llm.c's: give it another name, "
                f"such as set_{path.name}"
            )
        tokens = size // 2
    elif size < header:
        raise DamagedData(_fault(path, f"{size} bytes", f"begins with a header of {header} bytes"))
    elif (magic, version) != (_MAGIC, _VERSION):
        rule = f"begins with llm.c's magic {_MAGIC} and version {_VERSION} at byte 0"
        raise DamagedData(_fault(path, f"{magic} and {version}", rule))
    elif size != header + 2 * tokens:
        rule = f"has the {tokens} tokens that byte 8 of its header tells, {header + 2 * tokens} bytes"
        raise DamagedData(_fault(path, f"{size} bytes", rule))
    return TokenFile(path, header, tokens, size, status.st_mtime_ns)


class FileFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Line of the record: what reading a whole file has shown."""

    bytes: int
    changed: int
    sha256: str
    largest: int
    position: int
    """Position of the first token with the largest number, from 0."""

    def require(self, file: TokenFile, vocabulary: int) -> None:
        if self.largest >= vocabulary:
            raise DamagedData(
                f"tokens are below dataset.vocabulary={vocabulary}, but token {self.position} of {shown(file.path)} is "
                f"{self.largest}: correct dataset.vocabulary, or write the file again"
            )


def read_record(root: Path) -> dict[str, FileFacts]:
    """Return the record by file name. Empty if there is none."""
    path = root / RECORD
    if not os.path.lexists(path):
        return {}
    try:
        return msgspec.json.decode(read_bounded(path, _LARGEST_RECORD), type=dict[str, FileFacts])
    except (OSError, msgspec.DecodeError) as error:
        raise DamagedData(
            f"{RECORD} is as `prepare` wrote it, but {shown(path)} is not ({error}): remove it"
        ) from error


def write_record(root: Path, record: Mapping[str, FileFacts]) -> Path:
    replace_file(root / RECORD, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    return root / RECORD


@lru_cache(maxsize=64)
def read_through(file: TokenFile, progress: Callable[[int], None] = lambda tokens: None) -> FileFacts:
    """Read a whole file: SHA-256 and the first of its largest tokens. `progress`: called with the tokens read in each part."""
    tokens, held = file.mapped()
    digest, largest, position = hashlib.sha256(held[: file.header]), -1, 0
    for start in range(0, file.tokens, _CHUNK):
        part = tokens[start : start + _CHUNK]
        digest.update(part.data)
        at = int(part.argmax())
        if int(part[at]) > largest:
            largest, position = int(part[at]), start + at
        progress(len(part))
    return FileFacts(file.bytes, file.changed, digest.hexdigest(), largest, position)


def known(files: Sequence[TokenFile], record: Mapping[str, FileFacts]) -> dict[str, FileFacts]:
    """Return the lines of the record for files that were not changed since."""
    lines = ((file, record.get(file.path.name)) for file in files)
    return {
        file.path.name: line
        for file, line in lines
        if line is not None and (line.bytes, line.changed) == (file.bytes, file.changed)
    }
