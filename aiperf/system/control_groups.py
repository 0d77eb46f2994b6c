"""What control groups grant this process, and how many processors it may use: the one place that says so. Linux, no torch."""

from __future__ import annotations

import math
import os
from pathlib import Path

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
    return control_group_limits((proc / "self/cgroup").read_text(), (proc / "self/mountinfo").read_text())


def control_group_limits(membership: str, mounts: str) -> Limits:
    """The limits in force, from the texts of /proc/self/cgroup and /proc/self/mountinfo.

    A limit holds for all groups below its own, so each group from this one up to the mount is asked.
    """
    groups: dict[str, str] = {}  # controller ('' = version 2) -> path of this process's group
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    quotas: list[float] = []
    memories: list[int] = []
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2" and "" in groups:
            for folder in _upwards(Path(mount), root, groups[""]):
                quota, _, period = (_text(folder / "cpu.max") or "max 1").partition(" ")
                quotas += [] if quota == "max" else [int(quota) / int(period)]
                memory = _text(folder / "memory.max") or "max"
                memories += [] if memory == "max" else [int(memory)]
        elif kind == "cgroup":
            mounted = {*options.split(",")}
            if "cpu" in mounted and "cpu" in groups:
                for folder in _upwards(Path(mount), root, groups["cpu"]):
                    quota, period = (
                        _text(folder / "cpu.cfs_quota_us") or "-1",
                        _text(folder / "cpu.cfs_period_us") or "1",
                    )
                    quotas += [] if int(quota) < 0 else [int(quota) / int(period)]
            if "memory" in mounted and "memory" in groups:
                for folder in _upwards(Path(mount), root, groups["memory"]):
                    limit = int(_text(folder / "memory.limit_in_bytes") or _NO_LIMIT)
                    memories += [] if limit >= _NO_LIMIT else [limit]
    return Limits(processors=min(quotas, default=None), memory_bytes=min(memories, default=None))


def _upwards(mount: Path, root: str, group: str) -> list[Path]:
    """The folders of a group and those above it, as mounted here: in a container its own is the mount's root."""
    inside = group.removeprefix(root.rstrip("/")).strip("/") if group.startswith(root) else ""
    folder = mount / inside
    if not folder.is_dir():
        folder = mount
    return [folder, *(above for above in folder.parents if above.is_relative_to(mount))]


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:  # the root group has no limit files
        return None
