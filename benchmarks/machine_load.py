"""How busy a machine is while something is measured on it: load average, steal, whose work its processors do.

The same watch as in a run's telemetry (`aiperf.system.load_watch`), kept on a process from outside, by a thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiperf.system.load_watch import LoadWatch
from aiperf.system.own_processes import OwnProcesses
from aiperf.system.sampler import ProcessorTime

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
    """That the measured processes had."""
    others: float
    """That all other programs had."""
    kernel: float
    """Interrupts, and the kernel's own threads."""
    stalled: float | None
    """Share of the time in which somebody waited for a processor (PSI); None: the kernel does not tell."""

    def __str__(self) -> str:
        stalled = "" if self.stalled is None else f", {self.stalled:.0%} of the time somebody waited for a processor"
        return (
            f"load {self.before:.2f} → {self.after:.2f}, own {self.own:.0%}, others {self.others:.1%}, stolen {self.stolen:.1%}"
            f"{stalled}"
        )


class OutsideWatch:
    """Watches a process with all that descend from it; `load` when it is over."""

    def __init__(self, pid: int) -> None:
        self._watch = LoadWatch(OwnProcesses({pid}))
        self._before = os.getloadavg()[0]
        self._first = self._last = self._watch.look()

    def look(self) -> None:
        """Takes in what the machine has done so far. The last look while the process lives is what counts of it."""
        self._last = self._watch.look()

    def own_seconds(self) -> float:
        """Of processor time that the watched processes had until the last look."""
        return self._last.own - self._first.own

    def load(self) -> Load:
        """From its beginning until the last look."""
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
    """Looks at a process once a second while the block goes on."""
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
