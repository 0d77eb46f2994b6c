"""Distribution of a host's processor time: this run, other programs, the kernel and the hypervisor. Linux only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aiperf.system.host import HOST
from aiperf.system.load.own_processes import OwnProcesses
from aiperf.system.processes import Process, everybody, name
from aiperf.system.sampler import DeviceSample, ProcessorTime, ReportsProcesses, Sampler

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
