"""Measured matrix products of the workers' processors at start-up and after the end of the run, with a warning.

MFU uses the measurement at start-up, which the journal has before any work of the worker. A difference limits its accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aiperf import units
from aiperf.journal.events import RunEnded, WorkerJoined
from aiperf.report.facts import PeakAfterRun
from aiperf.run_warning import RunWarning
from aiperf.system.peaks import MEASURED_PEAK

MOST_CHANGE = 0.1
"""Largest relative change without a warning."""


def peaks_again(workers: Mapping[int, WorkerJoined], ended: RunEnded | None) -> tuple[PeakAfterRun, ...]:
    """Return both measurements of all workers that were measured twice, ordered by worker."""
    return () if ended is None else tuple(_each(workers, ended))


def _each(workers: Mapping[int, WorkerJoined], ended: RunEnded) -> Iterator[PeakAfterRun]:
    for name, again in sorted(ended.measured_matmul_flops.items(), key=lambda pair: int(pair[0])):
        joined = workers[int(name)]
        for precision, first in joined.machine.get(MEASURED_PEAK, {}).items():
            yield PeakAfterRun(int(name), joined.host, precision, first, again, again / first - 1)


def peak_warnings(found: Sequence[PeakAfterRun]) -> list[RunWarning]:
    """Return one warning for all changed workers, which names the largest change."""
    changed = [one for one in found if abs(one.change) > MOST_CHANGE]
    if not changed:
        return []
    worst = max(changed, key=lambda one: abs(one.change))
    text = (
        f"the measured matrix product of {len(changed)} of {len(found)} worker{'' if len(found) == 1 else 's'} changed "
        f"during the run, most on worker {worst.worker} on {worst.host!r}: {in_words(worst)}. Another program ran, or the "
        "clocks changed. MFU uses the value at the start"
    )
    remedy = "stop other programs, fix the clocks (cpupower frequency-set -g performance), and run again"
    return [RunWarning(text, "warning", remedy)]


def in_words(one: PeakAfterRun) -> str:
    """Return both measurements: `182 GFLOPS at the start, 120 GFLOPS after the end (−34.1 %)`."""
    change = f"{'+' if one.change > 0 else ''}{units.share(one.change)}"
    return (
        f"{units.flops_per_second(one.first_flops)} at the start, "
        f"{units.flops_per_second(one.again_flops)} after the end ({change})"
    )
