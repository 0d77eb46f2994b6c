"""Processes of this run on a host, and their processor time, including processes that have ended. Linux only (proc(5)).

They descend from its driver, from a process of its Ray cluster, or from the sampling process. The time between the last sample
of a process and its end is taken from its parent's count of children. This is exact unless the parent has ended too or does not
wait for its children.
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
"""Ray's name of one session (Ray 2.60). The command line of each Ray daemon contains it."""
_Key = tuple[int, int]


def identity(proc: Path = Path("/proc")) -> str:
    """Return a text that identifies this process among all machines: BOOT/PID NAMESPACE/PID/START TIME."""
    pid = os.getpid()
    return f"{boot_id(proc)}/{process_space(proc)}/{pid}/{everybody(proc)[pid].started}"


def seen_here(identity: str, proc: Path = Path("/proc")) -> int | None:
    """Return the PID of the process that `identity` names. None if it is not visible here or has ended."""
    boot, space, pid, started = identity.split("/")
    process = everybody(proc).get(int(pid))
    is_here = (boot, space) == (str(boot_id(proc)), str(process_space(proc)))
    return int(pid) if is_here and process is not None and process.started == int(started) else None


def roots_of(asking: int, driver: int | None, proc: Path = Path("/proc")) -> tuple[frozenset[int], str | None]:
    """Return the PIDs of a run's root processes on this host, and the name of its Ray session (None without Ray).

    `asking`: a process of the run. Ray daemons and modules of this package among its ancestors are roots too. `driver`: None if
    it is not visible here.
    """
    everyone = everybody(proc)
    roots, session = {asking} if driver is None else {asking, driver}, None
    for pid in _above(asking, everyone):
        words = command(pid, proc)
        if (session_name := _RAY_SESSION.search("\0".join(words))) is not None:
            session = session or session_name[0]
            roots.add(pid)
        elif any(a == "-m" and b.partition(".")[0] == "aiperf" for a, b in pairwise(words)):
            roots.add(pid)
    return frozenset(roots), session


def _above(pid: int, everyone: Mapping[int, Process]) -> Iterator[int]:
    while (process := everyone.get(pid)) is not None:
        yield pid
        pid = process.parent


class OwnProcesses:
    """Processor time of the run's processes on this host since the first sample. Used from one thread."""

    def __init__(self, roots: Collection[int], ray_session: str | None = None, proc: Path = Path("/proc")) -> None:
        self._roots = frozenset(roots)
        self._session = ray_session
        self._proc = proc
        self._asked: set[_Key] = set()
        self._last: dict[_Key, Process] | None = None
        self._first_start = 0
        self.ticks = 0

    @property
    def pids(self) -> frozenset[int]:
        return frozenset(pid for pid, _ in self._last or ())

    def look(self, everyone: Mapping[int, Process]) -> None:
        """Add the processor time since the last sample to `ticks`. The first call adds nothing."""
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
        if self._session is None:
            return []
        keys = {(process.pid, process.started) for process in everyone.values()}
        new, self._asked = keys - self._asked, keys
        return [pid for pid, _ in new if self._session in _RAY_SESSION.findall("\0".join(command(pid, self._proc)))]


def gained(before: Mapping[_Key, Process], now: Mapping[_Key, Process], first_start: int) -> int:
    """Return the clock ticks that the processes of a run used between two samples.

    `first_start`: latest start in ticks among all processes of the first sample. A process that started later counts in full,
    another one that is only in `now` not at all. Ended processes count up to the last sample, and fully if a remaining process
    waited for them.
    """
    survivors = before.keys() & now.keys()
    own = sum(max(0, now[key].ticks - before[key].ticks) for key in survivors)
    new = sum(_total(one) for key, one in now.items() if key not in before and one.started > first_start)
    # A process that waits for an ended one inherits its ticks. They were counted until the last sample
    inherited = sum(now[key].children_ticks - before[key].children_ticks for key in survivors)
    counted = sum(_total(one) for key, one in before.items() if key not in now)
    return own + new + max(0, inherited - counted)


def _total(process: Process) -> int:
    return process.ticks + process.children_ticks
