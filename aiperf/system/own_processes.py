"""Which processes of a host are this run's, and how much processor time they have had: those that have ended included.

A run's processes are those that descend from its driver, from a process of its Ray, or from whoever asks; each counts
from when it is first seen until it has ended, whoever its parent is by then. What a process had between the last look at it
and its end stands in its parent's count of children, from where it is taken: exact, unless its parent has ended as well or
waits for no children. Linux (proc(5)).
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from aiperf.system.describe import boot_id
from aiperf.system.processes import Process, command, everybody, process_space

_RAY_SESSION = re.compile(r"session_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_\d+_\d+")
"""How Ray names one start of it (Ray 2.60). Each of its daemons has the name in its command line."""
_Key = tuple[int, int]
"""A process's number and when it started."""


def identity(proc: Path = Path("/proc")) -> str:
    """Of this process, among those of all machines: its boot, the space that its number is meant in, number and start."""
    pid = os.getpid()
    return f"{boot_id(proc)}/{process_space(proc)}/{pid}/{everybody(proc)[pid].started}"


def seen_here(identity: str, proc: Path = Path("/proc")) -> int | None:
    """The number of the process with an identity; None: it is elsewhere, in a container of its own, or has ended."""
    boot, space, pid, started = identity.split("/")
    process = everybody(proc).get(int(pid))
    is_here = (boot, space) == (str(boot_id(proc)), str(process_space(proc)))
    return int(pid) if is_here and process is not None and process.started == int(started) else None


def roots_of(asking: int, driver: int | None, proc: Path = Path("/proc")) -> tuple[frozenset[int], str | None]:
    """From whom a run's processes descend, as seen from one of them; and the name of its Ray's session, if there is one.

    `asking`: one of the run's. Of those above it, Ray's daemons and modules of this package are roots too. `driver`: where it
    can be seen from here.
    """
    everyone = everybody(proc)
    roots, session = {asking} if driver is None else {asking, driver}, None
    for pid in _above(asking, everyone):
        words = command(pid, proc)
        if (found := _RAY_SESSION.search("\0".join(words))) is not None:
            session = session or found[0]
            roots.add(pid)
        elif any(a == "-m" and b.partition(".")[0] == "aiperf" for a, b in pairwise(words)):
            roots.add(pid)
    return frozenset(roots), session


def _above(pid: int, everyone: Mapping[int, Process]) -> Iterator[int]:
    while (process := everyone.get(pid)) is not None:
        yield pid
        pid = process.parent


class OwnProcesses:
    """Counts from its first look on. Used from one thread."""

    def __init__(self, roots: Collection[int], ray_session: str | None = None, proc: Path = Path("/proc")) -> None:
        self._roots = frozenset(roots)
        self._session = ray_session
        self._proc = proc
        self._asked: set[_Key] = set()
        """Whose command line has been read."""
        self._last: dict[_Key, Process] | None = None
        self._first_start = 0
        """No process that starts later had a life before the first look."""
        self.ticks = 0
        """Of processor time that they have had since the first look."""

    @property
    def pids(self) -> frozenset[int]:
        """Those that lived when it was last looked."""
        return frozenset(pid for pid, _ in self._last or ())

    def look(self, everyone: Mapping[int, Process]) -> None:
        """Takes in what all of them have had so far."""
        now = {(process.pid, process.started): process for process in self._family(everyone)}
        if self._last is None:
            self._first_start = max((process.started for process in everyone.values()), default=0)
        else:
            self.ticks += gained(self._last, now, self._first_start)
        self._last = now

    def _family(self, everyone: Mapping[int, Process]) -> Iterator[Process]:
        children: defaultdict[int, list[int]] = defaultdict(list)
        for process in everyone.values():
            children[process.parent].append(process.pid)
        known = {pid for pid, started in self._last or () if pid in everyone and everyone[pid].started == started}
        waiting = [*known, *(pid for pid in self._roots if pid in everyone), *self._of_ray(everyone)]
        met: set[int] = set()
        while waiting:
            pid = waiting.pop()
            if pid not in met:
                met.add(pid)
                yield everyone[pid]
                waiting += children[pid]

    def _of_ray(self, everyone: Mapping[int, Process]) -> list[int]:
        """Those that have not been met before and name its session."""
        if self._session is None:
            return []
        keys = {(process.pid, process.started) for process in everyone.values()}
        new, self._asked = keys - self._asked, keys
        return [pid for pid, _ in new if self._session in _RAY_SESSION.findall("\0".join(command(pid, self._proc)))]


def gained(before: Mapping[_Key, Process], now: Mapping[_Key, Process], first_start: int) -> int:
    """Ticks that a family has had between two looks. `first_start`: one that started later is new with all that it has had."""
    # Of those that have ended, what had been counted already: it comes again in the count of whoever waited for them.
    counted: defaultdict[_Key, int] = defaultdict(int)
    by_pid = {key[0]: key for key in before}
    for key, ended in before.items():
        if key in now:
            continue
        heir = by_pid.get(ended.parent)
        while heir is not None and heir not in now:
            heir = by_pid.get(before[heir].parent)
        if heir is not None:
            counted[heir] += ended.ticks + ended.children_ticks
    ticks = 0
    for key, process in now.items():
        was = before.get(key)
        if was is not None:
            ticks += max(0, process.ticks - was.ticks)
            ticks += max(0, process.children_ticks - was.children_ticks - counted[key])
        elif process.started > first_start:
            ticks += process.ticks + process.children_ticks
    return ticks
