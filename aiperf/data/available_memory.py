"""Memory that this process can still use, within the limits of its container."""

from __future__ import annotations

from pathlib import Path

from aiperf.system.control_groups import memory_room_here
from aiperf.system.host import meminfo


def available_bytes(proc: Path = Path("/proc")) -> int:
    """Return the bytes that this process can still allocate without swapping, on the host and within its container.

    0 if the kernel does not report them.
    """
    try:
        host = meminfo((proc / "meminfo").read_text()).get("MemAvailable", 0)
        room = memory_room_here(proc)
    except OSError:
        return 0
    return host if room is None else min(host, room)
