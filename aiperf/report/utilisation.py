"""How much of the accelerators was used: MFU by tensor count, gaps between trials, time in communication and input.

The peak comes from the table of dense peaks (`aiperf.system.peaks`); on a processor it is the matrix product that the worker
measured, and is called so. Where neither is known there is no MFU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from aiperf.accounting.intervals import Real
from aiperf.accounting.score import capacity
from aiperf.accounting.windows import Window, share_inside
from aiperf.journal.events import WorkerJoined
from aiperf.report.facts import Utilisation
from aiperf.report.fold import Collected
from aiperf.system.peaks import DataType, peak, peak_clock_mhz

MEASURED_PEAK = "measured_matmul_flops"
"""Where a worker's system description holds the rate of matrix products it measured: data type → FLOPS of one rank."""


def utilisation(run: Collected, inside: Window) -> Utilisation:
    """The figures of the valid window; None where it has no length or nothing was measured."""
    work_log = run.work_log
    columns = work_log.intervals
    weight = share_inside(columns.start, columns.end, inside)
    of_all_ranks = columns.ranks.astype(np.float64) * weight
    tensor = math.fsum((columns.tensor_flops * weight).tolist())
    busy = math.fsum((columns.busy * of_all_ranks).tolist())
    communication = math.fsum((columns.communication * of_all_ranks).tolist())
    waited = math.fsum((columns.input * of_all_ranks).tolist())
    whole = capacity(work_log) * inside.seconds
    found = _peak(run)
    dense = found.flops
    gaps = pauses(run)
    return Utilisation(
        tensor_flops=tensor,
        busy_seconds=busy,
        accelerator_seconds=whole,
        peak_flops=dense,
        peak_source=found.source,
        peak_clock_mhz=found.clock_mhz,
        mfu=None if dense is None or whole <= 0 else tensor / (whole * dense),
        mfu_busy=None if dense is None or busy <= 0 else tensor / (busy * dense),
        gap_median_seconds=float(np.median(gaps)) if len(gaps) else None,
        gap_p95_seconds=float(np.percentile(gaps, 95)) if len(gaps) else None,
        communication_share=communication / busy if busy > 0 else None,
        input_share=waited / whole if whole > 0 else None,
    )


def pauses(run: Collected) -> Real:
    """Seconds from the end of a worker's last interval to the beginning of its first one of another attempt, for every attempt
    that did any work on a worker that had worked before."""
    columns = run.work_log.intervals
    worker = columns.worker
    order = np.argsort(worker, kind="stable")
    worker, start, end = worker[order], columns.start[order], columns.end[order]
    of, since = np.array(run.begun_worker, dtype=np.int64), np.array(run.begun_row, dtype=np.int64)
    rows = len(order)
    # Rows are in the order of (worker, row), so that a worker's first row after an attempt began is found by halving.
    first = np.searchsorted(worker * (rows + 1) + order, of * (rows + 1) + since)
    has_worked = (first > 0) & (first < rows)
    first, of = first[has_worked], of[has_worked]
    first = np.unique(first[(worker[first] == of) & (worker[first - 1] == of)])
    return np.maximum(0.0, start[first] - end[first - 1])


@dataclass(frozen=True, slots=True)
class _Peak:
    """Of one accelerator."""

    flops: float | None = None
    source: str | None = None
    clock_mhz: float | None = None


def _peak(run: Collected) -> _Peak:
    """One peak for all workers and precisions, or none: a mean of unlike peaks would be nobody's utilisation."""
    precisions = {preparation.precision for preparation in run.work_log.preparations}
    if len(precisions) != 1:
        return _Peak()
    precision = next((each for each in get_args(DataType) if each in precisions), None)
    if precision is None:
        return _Peak()
    found = {_peak_of(joined, precision) for joined in run.workers.values()}
    return found.pop() if len(found) == 1 else _Peak()


def _peak_of(joined: WorkerJoined, precision: DataType) -> _Peak:
    units = _compute_units(joined.machine)
    dense = peak(joined.device, None, precision, units)
    if dense is not None:
        clock = peak_clock_mhz(joined.device, None, precision, units)
        return _Peak(dense, f"dense peak of {joined.device} in {precision}", clock)
    measured: Any = joined.machine.get(MEASURED_PEAK)
    if isinstance(measured, dict) and precision in measured:
        return _Peak(float(measured[precision]), f"matrix product measured on this host in {precision}")
    return _Peak()


def _compute_units(machine: Mapping[str, Any]) -> int | None:
    """Of each of the host's accelerators, where a sampler told and all are alike."""
    told = {device.get("compute_units") for device in machine.get("accelerators", ())}
    return told.pop() if len(told) == 1 else None
