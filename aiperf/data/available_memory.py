"""Available memory of this process, within its container."""

from __future__ import annotations

import shutil
from pathlib import Path

from aiperf.system.control_groups import memory_room_here
from aiperf.system.host import meminfo


def available_bytes(proc: Path = Path("/proc")) -> int:
    """Return the bytes that can be allocated without swapping.

    Of the host, or of the tightest control group if that is less. 0 if unknown, so that nothing is cached on a guess.
    """
    try:
        host = meminfo((proc / "meminfo").read_text()).get("MemAvailable", 0)
        room = memory_room_here(proc)
    except OSError:
        return 0
    return host if room is None else min(host, room)


def free_bytes(folder: Path) -> int:
    """Return the free bytes of a folder's file system. 0 if the folder does not exist."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
