"""How busy a machine is while something is measured on it: load average, time stolen by the hypervisor, other processes' share.

Linux: /proc, read once a second by a thread. Of processes that live between two looks alone nothing is seen.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiperf.system.processes import family

_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Load:
    """Over a measurement. Shares are of all of the machine's processor time."""

    before: float
    """Load average of one minute when it began."""
    after: float
    stolen: float
    """That the hypervisor gave to others."""
    own: float
    """That the measured processes had, as far as they were seen."""
    others: float
    """That all others had."""
    stalled: float | None
    """Share of the time in which somebody waited for a processor (PSI); None: the kernel does not tell."""

    def __str__(self) -> str:
        stalled = "" if self.stalled is None else f", {self.stalled:.0%} of the time somebody waited for a processor"
        return (
            f"load {self.before:.2f} → {self.after:.2f}, own {self.own:.0%}, others {self.others:.1%}, stolen {self.stolen:.1%}"
            f"{stalled}"
        )


@dataclass(slots=True)
class LoadWatch:
    """Watches a process with all that descend from it; `load` when it is over."""

    pid: int
    _seen: dict[int, int] = field(default_factory=dict)
    """Ticks that each process had when it was last looked at."""
    _first: tuple[list[int], float | None] = field(default_factory=lambda: (_stat(), _stalled()))
    _before: float = field(default_factory=lambda: os.getloadavg()[0])

    def look(self) -> None:
        """Takes in what each of the processes has had so far. One that was seen once stays its, whoever its parent is now."""
        for pid in {*family(self.pid), *self._seen}:
            if (ticks := _ticks(pid)) is not None:
                self._seen[pid] = max(ticks, self._seen.get(pid, 0))

    def load(self) -> Load:
        """From its beginning until now."""
        (stat, stalled), (now, stalled_now) = self._first, (_stat(), _stalled())
        user, nice, system, idle, iowait, irq, softirq, steal = (b - a for a, b in zip(stat, now, strict=True))
        busy = user + nice + system + irq + softirq
        whole = max(1, busy + idle + iowait + steal)
        own = min(busy, sum(self._seen.values()))
        seconds = whole / _TICKS / (os.cpu_count() or 1)
        waited = None if stalled is None or stalled_now is None else min(1.0, (stalled_now - stalled) / seconds)
        return Load(self._before, os.getloadavg()[0], steal / whole, own / whole, max(0, busy - own) / whole, waited)


@contextmanager
def watched(pid: int) -> Iterator[LoadWatch]:
    """Looks at a process once a second while the block goes on."""
    watch, over = LoadWatch(pid), threading.Event()

    def looking() -> None:
        watch.look()
        while not over.wait(_EVERY_SECONDS):
            watch.look()

    thread = threading.Thread(target=looking, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()


def _stat() -> list[int]:
    return [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def _ticks(pid: int) -> int | None:
    """User and system time of a process; None: it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _stalled() -> float | None:
    """Seconds since the machine began in which somebody waited for a processor."""
    try:
        text = Path("/proc/pressure/cpu").read_text()
    except OSError:
        return None
    return int(text.split("total=")[1].split()[0]) / 1e6
