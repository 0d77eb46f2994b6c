"""What a run's loss waterfall begins at, by its peak and its telemetry; the waterfall is `aiperf.accounting.losses`'s."""

from __future__ import annotations

from collections.abc import Collection

from aiperf.accounting.losses import Top, Waterfall, waterfall
from aiperf.accounting.score import Score
from aiperf.accounting.time_breakdown import TimeBreakdown
from aiperf.accounting.windows import Window
from aiperf.accounting.work_log import WorkLog
from aiperf.report.facts import Utilisation
from aiperf.system.telemetry import Telemetry

LEAST_MEASURED = 0.95
"""Of the window: clocks that were sampled for less of it are not taken for the whole."""


def losses(
    work_log: WorkLog,
    inside: Window,
    spent: TimeBreakdown,
    planned: int,
    result: Score,
    used: Utilisation,
    measured: Telemetry | None,
    workers: Collection[int],
) -> Waterfall | None:
    """Of a run's valid window. `workers`: those that worked in it."""
    top = Top(used.peak_flops, used.peak_source, clock_share(used.peak_clock_mhz, measured, workers))
    return waterfall(work_log, inside, spent, planned, result.flops_per_second, top)


def clock_share(peak_clock_mhz: float | None, measured: Telemetry | None, workers: Collection[int]) -> float | None:
    """Mean clock of the accelerators while they worked ÷ the clock of their peak.

    None where the clock of any accelerator that worked is not known: a part would pass for the whole.
    """
    if peak_clock_mhz is None or measured is None or not workers:
        return None
    whole = [
        one.worker
        for one in measured.workers
        if one.accelerators_sampled and one.accelerators_sampled == one.accelerators_expected
    ]
    if not set(workers) <= set(whole):
        return None
    total = seconds = 0.0
    for one in measured.accelerators:
        if one.worker not in workers:
            continue
        is_partial = one.seconds_measured < LEAST_MEASURED * (one.seconds_measured + one.seconds_missing)
        if one.clock_mean_mhz is None or one.utilisation_mean is None or is_partial:
            return None
        weight = one.utilisation_mean * one.seconds_measured
        total += one.clock_mean_mhz * weight
        seconds += weight
    return total / seconds / peak_clock_mhz if seconds > 0 else None
