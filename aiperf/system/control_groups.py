"""Limits of the control groups (container or batch job) of this process: processors, memory, and memory that is still free."""

from __future__ import annotations

import math
import os
from pathlib import Path, PurePosixPath

import msgspec

from aiperf.system.host import meminfo

_NO_LIMIT = 1 << 60  # cgroup 1 writes "no limit" as the largest page-aligned 63-bit number


class ControlGroupLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Tightest limits of this process's control group (v1 or v2) and of the groups above it. None if there is no limit."""

    processors: float | None = None
    """Processor time per second: 2.5 means two and a half processors."""
    memory_bytes: int | None = None


def usable_processors(limits: ControlGroupLimits | None = None) -> int:
    """Return the whole logical processors that this process may use, at least 1.

    They are limited by CPU affinity, the cgroup quota (rounded down), and within a job of Slurm by SLURM_CPUS_ON_NODE, since
    not every site binds the processes of shared nodes.
    """
    limits = limits or limits_here()
    allowed = len(os.sched_getaffinity(0))
    if limits.processors is not None:
        allowed = min(allowed, math.floor(limits.processors))
    granted = os.environ.get("SLURM_CPUS_ON_NODE", "")
    if "SLURM_JOB_ID" in os.environ and granted.isdecimal():
        allowed = min(allowed, int(granted))
    return max(1, allowed)


def limits_here(proc: Path = Path("/proc")) -> ControlGroupLimits:
    return control_group_limits(*_texts(proc))


def control_group_limits(membership: str, mounts: str) -> ControlGroupLimits:
    """Return the tightest limits of all groups above. Arguments: texts of /proc/self/cgroup and /proc/self/mountinfo."""
    groups = _groups(membership, mounts)
    quotas = [quota for folder in groups["cpu"] if (quota := _quota(folder)) is not None]
    memories = [limit for folder in groups["memory"] if (limit := _memory_limit(folder)) is not None]
    return ControlGroupLimits(processors=min(quotas, default=None), memory_bytes=min(memories, default=None))


def memory_room_here(proc: Path = Path("/proc")) -> int | None:
    """Return the least free bytes (limit − use) of the control group and the groups above it. None without a limit.

    0 if the use cannot be determined. It excludes inactive files, as in kubelet and `docker stats`: the kernel drops them
    before an allocation fails. A wide limit further up can leave less than this process's own limit.
    """
    rooms = []
    for folder in _groups(*_texts(proc))["memory"]:
        limit = _memory_limit(folder)
        if limit is not None:
            used = _memory_used(folder)
            rooms.append(0 if used is None else max(0, limit - used))
    return min(rooms, default=None)


def _texts(proc: Path) -> tuple[str, str]:
    return (proc / "self/cgroup").read_text(), (proc / "self/mountinfo").read_text()


def _groups(membership: str, mounts: str) -> dict[str, list[Path]]:
    """Return the folders of this process's group and of the groups above it, by controller ('cpu', 'memory')."""
    paths: dict[str, str] = {}  # controller ('' = version 2) -> path of this process's group
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    folders: dict[str, list[Path]] = {"cpu": [], "memory": []}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        for controller, found in folders.items():
            is_mounted = kind == "cgroup2" or (kind == "cgroup" and controller in options.split(","))
            name = "" if kind == "cgroup2" else controller
            if is_mounted and name in paths:
                found += _upwards(Path(mount), root, paths[name])
    return folders


def _quota(folder: Path) -> float | None:
    text = _text(folder / "cpu.max")
    if text is None:
        text = f"{_text(folder / 'cpu.cfs_quota_us') or '-1'} {_text(folder / 'cpu.cfs_period_us') or '1'}"
    quota, _, period = text.partition(" ")
    return None if quota == "max" or int(quota) < 0 else int(quota) / int(period)


def _memory_limit(folder: Path) -> int | None:
    text = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes") or "max"
    return None if text == "max" or int(text) >= _NO_LIMIT else int(text)


def _memory_used(folder: Path) -> int | None:
    text = _text(folder / "memory.current") or _text(folder / "memory.usage_in_bytes")
    if text is None:
        return None
    # Version 1 reports the group's own inactive files under the short name, and the sum with its subgroups under the long one.
    counts = {name: int(count) for name, count in map(str.split, (_text(folder / "memory.stat") or "").splitlines())}
    return max(0, int(text) - counts.get("total_inactive_file", counts.get("inactive_file", 0)))


def _upwards(mount: Path, root: str, group: str) -> list[Path]:
    """Return the folders of a group and of the groups above it. In a container the mount's root is the group itself."""
    inside = PurePosixPath(group).relative_to(root) if PurePosixPath(group).is_relative_to(root) else PurePosixPath()
    folder = mount / inside
    if ".." in inside.parts or not folder.is_dir():  # the group is not visible here: use the mounted one
        folder = mount
    return [folder, *(above for above in folder.parents if above.is_relative_to(mount))]


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:  # the root group has no limit files
        return None


def available_bytes(proc: Path = Path("/proc")) -> int:
    """Return the bytes that this process can still allocate without swapping. 0 if the kernel does not report them."""
    try:
        host = meminfo((proc / "meminfo").read_text()).get("MemAvailable", 0)
        room = memory_room_here(proc)
    except OSError:
        return 0
    return host if room is None else min(host, room)
