"""Whose work a host's processors do: this run's own, other programs', the kernel's, and what the hypervisor took.

Linux: /proc/stat, /proc/pressure/cpu and the times of all processes that can be seen. All times are counters; what happens
between two looks is in the next one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aiperf.system.host import HOST
from aiperf.system.own_processes import OwnProcesses
from aiperf.system.processes import Process, everybody, name
from aiperf.system.sampler import DeviceSample, ProcessorTime, Sampler, TellsProcesses

COST_SHARE = 0.005
"""Of a processor that looks may take: on a host with thousands of processes they become rarer."""
MOST_NAMED = 8
"""So many foreign programs of an accelerator are named in a sample."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class LoadWatch:
    """Looks at a host for whoever samples it. Used from one thread."""

    own: OwnProcesses
    every_seconds: float = 5.0
    """Between two looks at all processes, at least."""
    proc: Path = Path("/proc")
    _due: float = 0.0
    """On the monotonic clock."""
    _kernel: int = 0
    """Ticks of the kernel's threads since the first look."""
    _threads: dict[tuple[int, int], int] | None = None

    def is_due(self) -> bool:
        """Whether it is time for another look."""
        return time.monotonic() >= self._due

    def look(self) -> ProcessorTime:
        """Where the host's processor time has gone until now."""
        began = time.thread_time()
        ticks = _stat(self.proc)
        everyone = everybody(self.proc)
        self.own.look(everyone)
        self._kernel += self._kernel_gained(everyone)
        user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
        # By processor time: a look that waits for a processor, at the lowest priority, costs the run nothing.
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
        """These samples, with what is seen now of the host's processors and of who else computes on its accelerators."""
        samples = list(samples)
        ids = {sample.device for sample in samples}
        computing = {
            device: pids
            for sampler in samplers
            if isinstance(sampler, TellsProcesses)
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
        """Of processes that compute on an accelerator those that are not the run's, in words."""
        others = [pid for pid in sorted(set(computing)) if pid not in self.own.pids]
        named = [(pid, name(pid, self.proc)) for pid in others]  # of one that cannot be seen nobody knows whose it is
        return tuple(f"{called} {pid}" for pid, called in named if called)[:MOST_NAMED]


def _stat(proc: Path) -> list[int]:
    """Ticks of user, nice, system, idle, iowait, irq, softirq and steal, of all processors."""
    return [int(word) for word in (proc / "stat").read_text().split("\n", 1)[0].split()[1:9]]


def _stalled(proc: Path) -> float | None:
    """Seconds since the machine began in which somebody waited for a processor."""
    try:
        text = (proc / "pressure/cpu").read_text()
    except OSError:  # no such kernel, or switched off: psi=0
        return None
    return int(text.split("total=")[1].split()[0]) / 1e6
