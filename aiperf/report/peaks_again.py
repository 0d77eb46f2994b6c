"""What workers' processors did in a matrix product when they came up, and once more after the end; and what that warns of.

MFU stays held against the first, which stands in the journal before any work of the worker does; how far the two differ says
what that is worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aiperf import units
from aiperf.journal.events import RunEnded, WorkerJoined
from aiperf.report.facts import PeakAgain
from aiperf.run_warning import RunWarning
from aiperf.system.worker_peak import MEASURED_PEAK

MOST_CHANGE = 0.1
"""Beyond which it is warned of."""


def peaks_again(workers: Mapping[int, WorkerJoined], ended: RunEnded | None) -> tuple[PeakAgain, ...]:
    """Of all workers that were measured twice, by number."""
    return () if ended is None else tuple(_each(workers, ended))


def _each(workers: Mapping[int, WorkerJoined], ended: RunEnded) -> Iterator[PeakAgain]:
    for name, again in sorted(ended.measured_matmul_flops.items(), key=lambda pair: int(pair[0])):
        joined = workers[int(name)]
        for precision, first in joined.machine.get(MEASURED_PEAK, {}).items():
            yield PeakAgain(int(name), joined.host, precision, first, again, again / first - 1)


def peak_warnings(found: Sequence[PeakAgain]) -> list[RunWarning]:
    """One line for all of them, which names the worst."""
    changed = [one for one in found if abs(one.change) > MOST_CHANGE]
    if not changed:
        return []
    worst = max(changed, key=lambda one: abs(one.change))
    text = (
        f"the measured matrix product of {len(changed)} of {len(found)} worker{'' if len(found) == 1 else 's'} changed "
        f"during the run; worst worker {worst.worker} on {worst.host!r}: {in_words(worst)}. Something ran beside one of "
        "the two, or the clocks changed; MFU is held against the first"
    )
    remedy = "end what ran beside it, hold the clocks (cpupower frequency-set -g performance), and run again"
    return [RunWarning(text, "warning", remedy)]


def in_words(one: PeakAgain) -> str:
    """`182 GFLOPS, and after the end 120 GFLOPS (−34.1 %)`"""
    change = f"{'+' if one.change > 0 else ''}{units.share(one.change)}"
    return f"{units.flops_per_second(one.first_flops)}, and after the end {units.flops_per_second(one.again_flops)} ({change})"
