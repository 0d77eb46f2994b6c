"""Processes of a run, by /proc."""

from __future__ import annotations

from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the environment of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += map(int, (task / "children").read_text().split())
        except OSError:
            continue  # ended between the two looks
    return found


def descendants(pid: int) -> list[int]:
    return [one for child in children(pid) for one in (child, *descendants(child))]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def worker_host(driver: int) -> int:
    """The process of the WorkerHost actor, which Ray names after what it runs."""
    return next(pid for pid in descendants(driver) if command_line(pid).startswith(b"ray::WorkerHost"))
