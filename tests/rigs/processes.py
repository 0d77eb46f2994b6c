"""Processes of a run and their resources by /proc, and waiting for a condition."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self


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


@dataclass(frozen=True, slots=True)
class Process:
    """A process by number and birth, so that a number used again is another process."""

    pid: int
    born: str
    """Start time, field 22 of proc(5)."""

    @property
    def is_alive(self) -> bool:
        """Return whether it runs. A zombie does not."""
        stat = _stat(self.pid)
        return stat is not None and stat[19] == self.born and stat[0] not in "ZX"


@dataclass(slots=True)
class Census:
    """Looks at the descendants of a process again and again, until the `with` block ends."""

    root: int
    seen: dict[Process, str] = field(default_factory=dict)
    """Each process with its command line as it was last seen."""
    shared_memory: set[Path] = field(default_factory=set)
    """Files under /dev/shm that any of them had mapped."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        assert self._thread is not None
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self.look()

    def look(self) -> None:
        """Record the current processes: descendants of the root, and living processes recorded before."""
        for known in [Process(self.root, _born(self.root)), *self.seen]:
            if known.is_alive:
                for pid in descendants(known.pid):
                    self._count(pid)

    def _count(self, pid: int) -> None:
        born = _born(pid)
        if not born:
            return
        words = command_line(pid).replace(b"\0", b" ").decode(errors="replace").strip()
        self.seen[Process(pid, born)] = words or self.seen.get(Process(pid, born), "")
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                path = line.split(maxsplit=5)[-1].removesuffix(" (deleted)")
                if path.startswith("/dev/shm/"):
                    self.shared_memory.add(Path(path))

    def left_over(self, patience_seconds: float) -> list[str]:
        """Return what remains after `seconds`.

        Processes with their command lines (and so their ports), and shared memory.
        """
        deadline = time.monotonic() + patience_seconds
        while (left := list(self._left())) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left

    def _left(self) -> Iterator[str]:
        yield from (f"process {one.pid}: {words}" for one, words in self.seen.items() if one.is_alive)
        yield from (str(path) for path in self.shared_memory if path.exists())


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state (the third) on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def _born(pid: int) -> str:
    stat = _stat(pid)
    return "" if stat is None else stat[19]


LISTEN = "0A"


@dataclass(frozen=True)
class Listening:
    """One socket that takes connections."""

    pid: int
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    port: int
    program: str

    @property
    def is_loopback(self) -> bool:
        return self.address.is_loopback


def listening_sockets(pids: Iterable[int]) -> list[Listening]:
    """Return the sockets of these processes, in the network namespace of each."""
    found = []
    for pid in pids:
        inodes = set(_inodes(pid))
        if not inodes:
            continue
        first, *others = command_line(pid).decode(errors="replace").strip("\0 ").split("\0")
        program = f"{first.rpartition('/')[2]} {' '.join(others)[-70:]}"
        for table in ("tcp", "tcp6"):
            try:
                lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
            except OSError:
                continue  # ended between the two looks
            for line in lines:
                fields = line.split()
                if fields[3] == LISTEN and fields[9] in inodes:
                    where, _, port = fields[1].rpartition(":")
                    found.append(Listening(pid, _address(where), int(port, 16), program))
    return found


def _inodes(pid: int) -> list[str]:
    found = []
    for file in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            link = str(file.readlink())
        except OSError:
            continue
        if (named := re.fullmatch(r"socket:\[(\d+)\]", link)) is not None:
            found.append(named[1])
    return found


def _address(hexadecimal: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """proc(5): words of 32 bits, each in the machine's own order."""
    words = [int(hexadecimal[at : at + 8], 16) for at in range(0, len(hexadecimal), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    if len(packed) == 4:
        return ipaddress.IPv4Address(socket.inet_ntop(socket.AF_INET, packed))
    address = ipaddress.IPv6Address(packed)
    return address.ipv4_mapped or address


def comes_true(is_so: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Return True as soon as the condition holds, False after the time."""
    deadline = time.monotonic() + seconds
    while not (so := is_so()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return so
