"""How much memory this process may count on, as a container sees it."""

from __future__ import annotations

import shutil
from pathlib import Path

from aiperf.system.control_groups import memory_room_here
from aiperf.system.host import meminfo


def available_bytes(proc: Path = Path("/proc")) -> int:
    """Memory that can be taken without swapping: of the host, or of the tightest control group where that is less.

    0 where it cannot be known, so that nothing is cached on a guess.
    """
    try:
        host = meminfo((proc / "meminfo").read_text()).get("MemAvailable", 0)
        room = memory_room_here(proc)
    except OSError:
        return 0
    return host if room is None else min(host, room)


def free_bytes(folder: Path) -> int:
    """Room left in the file system of a folder; 0 where there is no such folder."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
