"""What control groups grant this process: how many processors it may use, how much memory it may have and still has left.

The one place that reads control groups, of version 1 and 2. Linux; no torch.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import msgspec

_NO_LIMIT = 1 << 60  # cgroup 1 writes "no limit" as the largest page-aligned 63-bit number


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What control groups (v1 or v2) grant this process: the tightest of its own and those above; None = none."""

    processors: float | None = None
    """Processor time a second: 2.5 = two and a half processors."""
    memory_bytes: int | None = None


def usable_processors(limits: Limits | None = None) -> int:
    """Whole logical processors this process may use: its affinity, and the control group's quota rounded down; at least 1.

    `limits`: those in force, where they are known already.
    """
    limits = limits or limits_here()
    allowed = len(os.sched_getaffinity(0))
    return max(1, allowed if limits.processors is None else min(allowed, math.floor(limits.processors)))


def limits_here(proc: Path = Path("/proc")) -> Limits:
    """The limits in force for this process."""
    return control_group_limits(*_texts(proc))


def control_group_limits(membership: str, mounts: str) -> Limits:
    """The limits in force, from the texts of /proc/self/cgroup and /proc/self/mountinfo.

    A limit holds for all groups below its own, so each group from this one up to the mount is asked.
    """
    groups = _groups(membership, mounts)
    quotas = [quota for folder in groups.with_processors if (quota := _quota(folder)) is not None]
    memories = [limit for folder in groups.with_memory if (limit := _memory_limit(folder)) is not None]
    return Limits(processors=min(quotas, default=None), memory_bytes=min(memories, default=None))


def memory_room_here(proc: Path = Path("/proc")) -> int | None:
    """Bytes that this process may still take before its control groups' limits are reached, now; None = there is none."""
    return memory_room(*_texts(proc))


def memory_room(membership: str, mounts: str) -> int | None:
    """What the tightest of the groups with a limit has left, from the same texts; 0 where its use cannot be determined.

    A group's use is counted as kubelet and `docker stats` count it: without the files that nobody has mapped or read of late,
    which the kernel drops before it refuses anyone memory. What other processes of a group use is used up for this one too,
    so that a wide limit further up may leave less than this group's own.
    """
    rooms = []
    for folder in _groups(membership, mounts).with_memory:
        limit = _memory_limit(folder)
        if limit is not None:
            used = _memory_used(folder)
            rooms.append(0 if used is None else max(0, limit - used))
    return min(rooms, default=None)


def membership(proc: Path = Path("/proc")) -> str:
    """Which groups this process is in, as the kernel says it; '' where it does not."""
    return _text(proc / "self/cgroup") or ""


def _texts(proc: Path) -> tuple[str, str]:
    return (proc / "self/cgroup").read_text(), (proc / "self/mountinfo").read_text()


@dataclass(frozen=True, slots=True)
class _Groups:
    """The folders of this process's groups and of those above them, of both versions, by what they may limit."""

    with_processors: tuple[Path, ...]
    with_memory: tuple[Path, ...]


def _groups(membership: str, mounts: str) -> _Groups:
    paths: dict[str, str] = {}  # controller ('' = version 2) -> path of this process's group
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    processors: list[Path] = []
    memory: list[Path] = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" and "" in paths:
            folders = _upwards(Path(mount), root, paths[""])
            processors += folders
            memory += folders
        elif kind == "cgroup":
            mounted = {*options.split(",")}
            if "cpu" in mounted and "cpu" in paths:
                processors += _upwards(Path(mount), root, paths["cpu"])
            if "memory" in mounted and "memory" in paths:
                memory += _upwards(Path(mount), root, paths["memory"])
    return _Groups(tuple(processors), tuple(memory))


def _quota(folder: Path) -> float | None:
    """Of a group of version 2, or of version 1."""
    text = _text(folder / "cpu.max")
    if text is None:
        text = f"{_text(folder / 'cpu.cfs_quota_us') or '-1'} {_text(folder / 'cpu.cfs_period_us') or '1'}"
    quota, _, period = text.partition(" ")
    return None if quota == "max" or int(quota) < 0 else int(quota) / int(period)


def _memory_limit(folder: Path) -> int | None:
    text = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes") or "max"
    return None if text == "max" or int(text) >= _NO_LIMIT else int(text)


def _memory_used(folder: Path) -> int | None:
    """None where the group does not tell; one that tells no files of no use is taken to have none."""
    text = _text(folder / "memory.current") or _text(folder / "memory.usage_in_bytes")
    if text is None:
        return None
    # version 1 tells a group's own under the short name, and with those below it, as the limit counts, under the long one
    told = {name: int(count) for name, count in map(str.split, (_text(folder / "memory.stat") or "").splitlines())}
    return max(0, int(text) - told.get("total_inactive_file", told.get("inactive_file", 0)))


def _upwards(mount: Path, root: str, group: str) -> list[Path]:
    """The folders of a group and those above it, as mounted here: in a container its own is the mount's root."""
    inside = PurePosixPath(group).relative_to(root) if PurePosixPath(group).is_relative_to(root) else PurePosixPath()
    folder = mount / inside
    if ".." in inside.parts or not folder.is_dir():  # a group that is not in sight here: what is mounted stands for it
        folder = mount
    return [folder, *(above for above in folder.parents if above.is_relative_to(mount))]


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:  # the root group has no limit files
        return None
