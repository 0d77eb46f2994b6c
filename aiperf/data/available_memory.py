"""How much memory this process may count on, as a container sees it."""

from __future__ import annotations

import shutil
from pathlib import Path


def available_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Memory that can be taken without swapping: of the host, or of the container where that is less.

    0 where it cannot be known, so that nothing is cached on a guess.
    """
    try:
        lines = (proc / "meminfo").read_text().splitlines()
    except OSError:
        return 0
    host = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return host
    return host if limit == "max" else max(0, min(host, int(limit) - used))


def free_bytes(folder: Path) -> int:
    """Room left in the file system of a folder; 0 where there is no such folder."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
