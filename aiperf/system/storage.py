"""File systems of a run's folders: type, source and size, as the kernel reports them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

RUN = "run"


class Storage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """File system of one folder. None if a value cannot be determined."""

    name: str
    file_system: str | None
    source: str | None
    size_bytes: int | None
    why_not: str | None = None


def storage(folders: Mapping[str, Path], mountinfo: Path = Path("/proc/self/mountinfo")) -> tuple[Storage, ...]:
    """Return the file system of each folder. A run folder that does not exist yet has that of its nearest existing parent."""
    mounts = mounted(mountinfo.read_text()) if mountinfo.exists() else {}
    return tuple(_of(name, folder, mounts) for name, folder in folders.items())


def _of(name: str, folder: Path, mounts: Mapping[Path, tuple[str, str]]) -> Storage:
    existing = folder.resolve()
    while name == RUN and not existing.exists():
        existing = existing.parent
    try:
        size = os.statvfs(existing)
    except OSError as error:
        return Storage(name=name, file_system=None, source=None, size_bytes=None, why_not=error.strerror)
    for place in (existing, *existing.parents):
        if place in mounts:
            kind, source = mounts[place]
            return Storage(name=name, file_system=kind, source=source, size_bytes=size.f_blocks * size.f_frsize)
    why_not = "the kernel lists no mount that it lies on"
    return Storage(name=name, file_system=None, source=None, size_bytes=size.f_blocks * size.f_frsize, why_not=why_not)


def mounted(mountinfo: str) -> dict[Path, tuple[str, str]]:
    """Return (type, source) by mount point. Of two mounts at one point the later one counts."""
    mounts: dict[Path, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, source = after.split(" ")[:2]
        mounts[Path(_unescaped(before.split(" ")[4]))] = (kind, _unescaped(source))
    return mounts


def _unescaped(text: str) -> str:
    """Decode blanks, tabs, newlines and backslashes, which the kernel writes in octal."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
