"""What a run's folders lie on: file system, where it is mounted from, and its size, as the kernel says."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

RUN = "run"


class Storage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of one folder. None = cannot be determined here."""

    name: str
    """Whose folder it is: 'run', 'data set'."""
    file_system: str | None
    """Its type: ext4, lustre, nfs4, overlay, …"""
    source: str | None
    """The device or server that it is mounted from."""
    size_bytes: int | None
    why_not: str | None = None
    """Why it cannot be determined."""


def storage(folders: Mapping[str, Path], mountinfo: Path = Path("/proc/self/mountinfo")) -> tuple[Storage, ...]:
    """Of each folder, by what it is for. A run's that is to be made yet lies where the nearest folder above it lies."""
    mounts = mounted(mountinfo.read_text()) if mountinfo.exists() else {}
    return tuple(_of(name, folder, mounts) for name, folder in folders.items())


def _of(name: str, folder: Path, mounts: Mapping[Path, tuple[str, str]]) -> Storage:
    there = folder.resolve()
    while name == RUN and not there.exists():
        there = there.parent
    try:
        size = os.statvfs(there)
    except OSError as error:
        return Storage(name=name, file_system=None, source=None, size_bytes=None, why_not=error.strerror)
    for place in (there, *there.parents):
        if place in mounts:
            kind, source = mounts[place]
            return Storage(name=name, file_system=kind, source=source, size_bytes=size.f_blocks * size.f_frsize)
    why_not = "the kernel lists no mount that it lies on"
    return Storage(name=name, file_system=None, source=None, size_bytes=size.f_blocks * size.f_frsize, why_not=why_not)


def mounted(mountinfo: str) -> dict[Path, tuple[str, str]]:
    """Mount point → type and source, from the text of /proc/self/mountinfo (proc(5)); of two at one place the upper."""
    found: dict[Path, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, source = after.split(" ")[:2]
        found[Path(_unescaped(before.split(" ")[4]))] = (kind, _unescaped(source))
    return found


def _unescaped(text: str) -> str:
    """Blanks, tabs, newlines and backslashes stand in octal there."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
