"""Processor load of a host, by this run's processes, other programs, the kernel and the hypervisor. Linux only (proc(5)).

Processes of a run descend from its driver, its Ray cluster or the sampler. The last part of a process's time, after its last
sample, is taken from its parent's count of children, which is missing if the parent does not wait for it.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec

from aiperf.system.describe import boot_id
from aiperf.system.host import HOST
from aiperf.system.log import RecordedSample, Session
from aiperf.system.processes import Process, command, everybody, name, process_space
from aiperf.system.sampler import DeviceSample, ProcessorTime, ReportsProcesses, Sampler

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

    `first_start`: latest start in ticks of the first sample. A process that started later counts in full, one without a first
    sample not at all, an ended one up to its last sample, and in full if a remaining process waited for it.
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


COST_SHARE = 0.005
"""Maximum share of a processor for sampling. On a host with thousands of processes samples become rarer."""
MOST_NAMED = 8
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class LoadWatch:
    """Sampler of all processes of a host. Used from one thread."""

    own: OwnProcesses
    every_seconds: float = 5.0
    proc: Path = Path("/proc")
    _due: float = 0.0
    _kernel: int = 0
    _threads: dict[tuple[int, int], int] | None = None

    def is_due(self) -> bool:
        """The pauses between samples grow with their cost."""
        return time.monotonic() >= self._due

    def look(self) -> ProcessorTime:
        """Sample all processes. Only differences between two results are meaningful."""
        began = time.thread_time()
        ticks = _stat(self.proc)
        everyone = everybody(self.proc)
        self.own.look(everyone)
        self._kernel += self._kernel_gained(everyone)
        user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
        # Cost in processor time: waiting for a processor at the lowest priority does not cost the run anything.
        cost = time.thread_time() - began
        self._due = time.monotonic() + max(self.every_seconds, cost / COST_SHARE)
        return ProcessorTime(
            passed=sum(ticks) / _TICKS,
            programs=(user + nice + system - self._kernel) / _TICKS,
            own=self.own.ticks / _TICKS,
            kernel=(irq + softirq + self._kernel) / _TICKS,
            stolen=steal / _TICKS,
            stalled=_stalled(self.proc),
        )

    def _kernel_gained(self, everyone: Mapping[int, Process]) -> int:
        now = {(one.pid, one.started): one.ticks for one in everyone.values() if one.is_kernel_thread}
        before, self._threads = self._threads, now
        return 0 if before is None else sum(max(0, ticks - before.get(key, 0)) for key, ticks in now.items())

    def beside(self, samples: Iterable[DeviceSample], samplers: Iterable[Sampler]) -> list[DeviceSample]:
        """Return the samples with two values added: the host's processor time, and the foreign programs on each accelerator."""
        samples = list(samples)
        ids = {sample.device for sample in samples}
        computing = {
            device: pids
            for sampler in samplers
            if isinstance(sampler, ReportsProcesses)
            for device, pids in sampler.computing(ids).items()
            if pids is not None
        }
        processors = self.look()
        return [
            msgspec.structs.replace(
                sample,
                processors=processors if sample.device == HOST else None,
                foreign=self._foreign(computing[sample.device]) if sample.device in computing else None,
            )
            for sample in samples
        ]

    def _foreign(self, computing: Sequence[int]) -> tuple[str, ...]:
        others = [pid for pid in sorted(set(computing)) if pid not in self.own.pids]
        named = [(pid, name(pid, self.proc)) for pid in others]  # the owner of an invisible process is unknown
        return tuple(f"{called} {pid}" for pid, called in named if called)[:MOST_NAMED]


def _stat(proc: Path) -> list[int]:
    return [int(word) for word in (proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]


def _stalled(proc: Path) -> float | None:
    try:
        text = (proc / "pressure/cpu").read_text()
    except OSError:  # old kernel, or disabled by psi=0
        return None
    return int(text.split("total=")[1].split()[0]) / 1e6


LONGEST_STEP_SECONDS = 600.0
"""Longest time between two samples of all processes. A longer gap counts as not measured."""


@dataclass(frozen=True, slots=True)
class HostLoad:
    """Mean load of one machine. Shares refer to all its processor time in the measured seconds."""

    host: str
    """Name of the machine, or names of its containers if there are several."""
    seconds: float
    """Measured seconds of the window."""
    own: float
    """Share of this run's programs, as far as they are visible."""
    others: float
    """Share of all other programs."""
    kernel: float
    """Share of interrupts and kernel threads."""
    stolen: float
    """Share taken by the hypervisor."""
    stalled: float | None
    """Share of the time in which a process waited for a processor. None if it was not measured."""


_COUNTERS = ProcessorTime.__struct_fields__


class LoadBuilder:
    def __init__(self, window: tuple[float, float]) -> None:
        self._window = window
        self._views: dict[str, dict[str, dict[str, float]]] = {}
        """Sums of counters and seconds by machine and PID namespace. The sum of a counter that was not measured is NaN."""
        self._names: dict[str, set[str]] = {}
        self._last: tuple[Session, RecordedSample] | None = None

    def add(self, session: Session, look: RecordedSample) -> None:
        """Add a sample, in the order of its file. Two samples of a session more than 600 s apart add no load."""
        now = look.processors
        if now is None:
            return
        last, self._last = self._last, (session, look)
        if last is None or last[0] is not session:
            return
        before, step = last[1], look.at - last[1].at
        was = before.processors
        assert was is not None, "samples without processor time are not kept"
        inside = min(look.at, self._window[1]) - max(before.at, self._window[0])
        if now.passed <= was.passed or not 0 < step <= LONGEST_STEP_SECONDS or inside <= 0:
            return
        machine = session.boot_id or session.host
        self._names.setdefault(machine, set()).add(session.host)
        sums = self._views.setdefault(machine, {}).setdefault(
            session.process_space or "", dict.fromkeys((*_COUNTERS, "seconds"), 0.0)
        )
        sums["seconds"] += inside
        for counter in _COUNTERS:
            earlier, later = getattr(was, counter), getattr(now, counter)
            gained = math.nan if earlier is None or later is None else later - earlier
            sums[counter] += gained * inside / step

    def include(self, other: LoadBuilder) -> None:
        """Add the sums of other files."""
        for machine, names in other._names.items():
            self._names.setdefault(machine, set()).update(names)
        for machine, views in other._views.items():
            for space, sums in views.items():
                own = self._views.setdefault(machine, {}).setdefault(space, dict.fromkeys(sums, 0.0))
                for counter, value in sums.items():
                    own[counter] += value

    def loads(self) -> tuple[HostLoad, ...]:
        """Return the loads, sorted by machine name. A machine without a measured period in the window is left out."""
        loads = [
            self._load(", ".join(sorted(self._names[machine])), [*of.values()]) for machine, of in self._views.items()
        ]
        return tuple(sorted(loads, key=lambda one: one.host))

    def _load(self, host: str, views: list[dict[str, float]]) -> HostLoad:
        total = {counter: sum(view[counter] for view in views) for counter in (*_COUNTERS, "seconds")}
        own = sum(view["own"] / view["passed"] for view in views)
        return HostLoad(
            host=host,
            seconds=min(self._window[1] - self._window[0], max(view["seconds"] for view in views)),
            own=own,
            # each view covers the programs of the whole machine
            others=max(0.0, total["programs"] / total["passed"] - own),
            kernel=total["kernel"] / total["passed"],
            stolen=total["stolen"] / total["passed"],
            stalled=None if math.isnan(total["stalled"]) else min(1.0, total["stalled"] / total["seconds"]),
        )
