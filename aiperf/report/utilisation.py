"""Utilization of the accelerators: MFU (model FLOPS utilization), pauses between trials, communication and input."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np

from aiperf.accounting.intervals import Real
from aiperf.accounting.score import capacity
from aiperf.accounting.valid_window import Window, share_inside
from aiperf.report.facts import Utilisation
from aiperf.report.fold import Collected
from aiperf.system.peaks import DataType, WorkerPeak, declared_peak, worker_peak


def utilisation(run: Collected, inside: Window) -> Utilisation:
    """Return model FLOPS utilization, communication and input of the valid window `inside`, pauses, and the peak of a rank.

    A value is None without work, window or known peak.
    """
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
    dense = None if found is None else found.flops
    gaps = pauses(run)
    return Utilisation(
        tensor_flops=tensor,
        busy_seconds=busy,
        accelerator_seconds=whole,
        peak_flops=dense,
        peak_source=None if found is None else found.source,
        is_peak_measured=found is not None and found.is_measured,
        is_peak_declared=found is not None and found.is_declared,
        peak_clock_mhz=None if found is None else found.clock_mhz,
        mfu=None if dense is None or whole <= 0 else tensor / (whole * dense),
        mfu_busy=None if dense is None or busy <= 0 else tensor / (busy * dense),
        gap_median_seconds=float(np.median(gaps)) if len(gaps) else None,
        gap_p95_seconds=float(np.percentile(gaps, 95)) if len(gaps) else None,
        communication_share=communication / busy if busy > 0 else None,
        input_share=waited / whole if whole > 0 else None,
    )


def pauses(run: Collected) -> Real:
    """Return the pauses of workers between two attempts (starts of a training) in seconds, shape (pauses,)."""
    columns = run.work_log.intervals
    worker = columns.worker
    order = np.argsort(worker, kind="stable")
    worker, start, end = worker[order], columns.start[order], columns.end[order]
    of, since = np.array(run.begun_worker, dtype=np.int64), np.array(run.begun_row, dtype=np.int64)
    rows = len(order)
    # Rows are ordered by (worker, row): binary search finds a worker's first row after the start of an attempt.
    first = np.searchsorted(worker * (rows + 1) + order, of * (rows + 1) + since)
    has_worked = (first > 0) & (first < rows)
    first, of = first[has_worked], of[has_worked]
    first = np.unique(first[(worker[first] == of) & (worker[first - 1] == of)])
    return np.maximum(0.0, start[first] - end[first - 1])


def _peak(run: Collected) -> WorkerPeak | None:
    """Return the common peak of all workers, or None if peaks or precisions differ."""
    precisions = {preparation.precision for preparation in run.work_log.preparations}
    if len(precisions) != 1:
        return None
    precision = next((each for each in get_args(DataType) if each in precisions), None)
    return None if precision is None else peak_of_rank(run, precision)


def peak_of_rank(run: Collected, precision: DataType) -> WorkerPeak | None:
    """Return the peak FLOPS of one rank (process) in a precision, if it is the same for all workers.

    For measured peaks of one device model it is the fastest one, because other programs only slow a measurement down. None if a
    peak is unknown, or if the workers have different devices or published peaks.
    """
    declared = declared_peak(run.started.config)
    found = [worker_peak(joined.device, joined.machine, precision, declared) for joined in run.workers.values()]
    known = {one for one in found if one is not None}
    if None in found or not known:
        return None
    if len(known) == 1:
        return known.pop()
    if len({joined.device for joined in run.workers.values()}) > 1 or not all(one.is_measured for one in known):
        return None
    fastest = max(one.flops for one in known)
    source = f"fastest matrix product of those that {len(found)} workers measured in {precision}"
    return WorkerPeak(fastest, source, is_measured=True)
