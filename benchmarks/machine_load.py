"""Load of a machine during a measurement: load average, steal, and processor time by user.

Uses the sampler of a run's telemetry (`aiperf.system.load.load_watch`) in a thread, on a process from outside.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiperf.system.load.load_watch import LoadWatch
from aiperf.system.load.own_processes import OwnProcesses
from aiperf.system.sampler import ProcessorTime

_EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Load:
    """Load over a measurement. Shares refer to all processor time of the machine."""

    before: float
    """One-minute load average at the start."""
    after: float
    stolen: float
    """Share that the hypervisor gave to others."""
    own: float
    """Share of the measured processes."""
    others: float
    """Share of all other programs."""
    kernel: float
    """Share of interrupts and kernel threads."""
    stalled: float | None
    """Share of the time in which a process waited for a processor (PSI). None if the kernel does not report it."""

    def __str__(self) -> str:
        stalled = "" if self.stalled is None else f", {self.stalled:.0%} of the time a process waited for a processor"
        return (
            f"load {self.before:.2f} → {self.after:.2f}, own {self.own:.0%}, others {self.others:.1%}, stolen {self.stolen:.1%}"
            f"{stalled}"
        )


class OutsideWatch:
    """Sampler of a process and its descendants. Call `load` at the end."""

    def __init__(self, pid: int) -> None:
        self._watch = LoadWatch(OwnProcesses({pid}))
        self._before = os.getloadavg()[0]
        self._first = self._last = self._watch.look()

    def look(self) -> None:
        """Take a sample. The last one while the process is alive determines its time."""
        self._last = self._watch.look()

    def own_seconds(self) -> float:
        """Return the processor seconds of the watched processes until the last sample."""
        return self._last.own - self._first.own

    def load(self) -> Load:
        """Return the load from the start until the last sample."""
        first, last = self._first, self._last
        whole = max(1e-9, last.passed - first.passed)

        def share(seconds: float) -> float:
            return max(0.0, seconds) / whole

        own = last.own - first.own
        return Load(
            before=self._before,
            after=os.getloadavg()[0],
            stolen=share(last.stolen - first.stolen),
            own=share(own),
            others=share(last.programs - first.programs - own),
            kernel=share(last.kernel - first.kernel),
            stalled=_stalled(first, last, whole / (os.cpu_count() or 1)),
        )


def _stalled(first: ProcessorTime, last: ProcessorTime, seconds: float) -> float | None:
    if first.stalled is None or last.stalled is None:
        return None
    return min(1.0, (last.stalled - first.stalled) / seconds)


@contextmanager
def watched(pid: int) -> Iterator[OutsideWatch]:
    """Sample a process once per second during the block."""
    watch, over = OutsideWatch(pid), threading.Event()

    def looking() -> None:
        while not over.wait(_EVERY_SECONDS):
            watch.look()

    thread = threading.Thread(target=looking, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()
        watch.look()
