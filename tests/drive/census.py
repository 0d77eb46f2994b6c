"""Record of all processes of a run and their resources, and check of what remains afterwards."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.drive.processes import command_line, descendants


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
