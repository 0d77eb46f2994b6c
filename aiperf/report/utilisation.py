"""Utilization of the accelerators: MFU (model FLOPS utilization), pauses, communication, input, and losses from the peak."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import get_args

import numpy as np

from aiperf.accounting.accelerator_time import PARTS, AcceleratorTime
from aiperf.accounting.intervals import Real, Window, share_inside
from aiperf.accounting.losses import AcceleratorPeak, EnergyPart, Waterfall, waterfall
from aiperf.accounting.score import capacity
from aiperf.report.facts import Utilisation
from aiperf.report.fold import Collected
from aiperf.system.peaks import DataType, WorkerPeak, declared_peak, worker_peak
from aiperf.system.summary import Telemetry


def utilisation(run: Collected, inside: Window) -> Utilisation:
    """MFU, communication and input of the valid window, pauses, and the peak of a rank. None without work, window or peak."""
    work_log = run.work_log
    columns = work_log.intervals
    weight = share_inside(columns.start, columns.end, inside)
    of_all_ranks = columns.ranks.astype(np.float64) * weight
    tensor = math.fsum((columns.tensor_flops * weight).tolist())
    busy = math.fsum((columns.clock("busy") * of_all_ranks).tolist())
    communication = math.fsum((columns.clock("communication") * of_all_ranks).tolist())
    waited = math.fsum((columns.clock("input") * of_all_ranks).tolist())
    whole = capacity(work_log) * inside.seconds
    peak = _peak(run)
    dense = None if peak is None else peak.flops
    gaps = pauses(run)
    return Utilisation(
        tensor_flops=tensor,
        busy_seconds=busy,
        accelerator_seconds=whole,
        peak_flops=dense,
        peak_source=None if peak is None else peak.source,
        is_peak_measured=peak is not None and peak.is_measured,
        is_peak_declared=peak is not None and peak.is_declared,
        peak_clock_mhz=None if peak is None else peak.clock_mhz,
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
    peaks = [worker_peak(joined.device, joined.machine, precision, declared) for joined in run.workers.values()]
    known = {one for one in peaks if one is not None}
    if None in peaks or not known:
        return None
    if len(known) == 1:
        return known.pop()
    if len({joined.device for joined in run.workers.values()}) > 1 or not all(one.is_measured for one in known):
        return None
    fastest = max(one.flops for one in known)
    source = f"fastest matrix product of those that {len(peaks)} workers measured in {precision}"
    return WorkerPeak(fastest, source, is_measured=True)


LEAST_MEASURED = 0.95
"""Smallest sampled share of a worker's presence for which its clocks count as measured."""


def losses(
    spent: AcceleratorTime,
    planned: int,
    flops_per_second: float | None,
    used: Utilisation,
    measured: Telemetry | None,
    present: Mapping[int, float],
    workers: Collection[int],
) -> Waterfall | None:
    """Losses from the peak to the score by cause, with their energy. None without score, window, accelerator or first rate."""
    at_work = {worker: present[worker] for worker in workers if worker in present}
    top = AcceleratorPeak(used.peak_flops, used.peak_source, clock_share(used.peak_clock_mhz, measured, at_work))
    fallen = waterfall(spent, planned, flops_per_second, top)
    return None if fallen is None else with_energy(fallen, measured, present)


def with_energy(fallen: Waterfall, measured: Telemetry | None, workers: Collection[int]) -> Waterfall:
    all_ = () if measured is None else tuple(one for one in measured.devices if one.worker in workers)
    devices = tuple(one for one in all_ if one.device.kind == "accelerator")
    of = "accelerators"
    if not devices:
        hosts = [one for one in all_ if one.device.kind == "host"]
        is_own = len({one.host for one in hosts}) == len(hosts)
        devices, of = tuple(hosts) if is_own else (), "processors"
    if not devices or any(one.energy_joules is None for one in devices):
        return fallen
    parts: list[EnergyPart] = []
    present = {loss.name for loss in fallen.losses}
    for activity, names in [*PARTS.items(), ("", ("unexplained",))]:
        spent = [one.spent[activity] for one in devices if activity in one.spent]
        if spent:
            joules, seconds = (
                math.fsum(figures) for figures in zip(*((t.joules, t.seconds) for t in spent), strict=True)
            )
            named = tuple(name for name in names if name in present)
            parts.append(EnergyPart(activity or "no known activity", named, joules, seconds))
    alone = {part.losses[0]: part.joules for part in parts if len(part.losses) == 1 and part.activity in PARTS}
    return replace(
        fallen,
        losses=tuple(replace(loss, joules=alone.get(loss.name)) for loss in fallen.losses),
        joules=math.fsum(part.joules for part in parts),
        energy_of=of,
        energy=tuple(parts),
    )


def clock_share(peak_clock_mhz: float | None, measured: Telemetry | None, workers: Mapping[int, float]) -> float | None:
    """Return the mean clock of the working accelerators, weighted by utilization, ÷ the clock of their peak.

    None if a clock or utilization is unknown, or if an accelerator was sampled for less than 95 % of its worker's presence.
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
        is_partial = one.seconds_measured < LEAST_MEASURED * workers[one.worker]
        if one.clock_mean_mhz is None or one.utilisation_mean is None or is_partial:
            return None
        weight = one.utilisation_mean * one.seconds_measured
        total += one.clock_mean_mhz * weight
        seconds += weight
    return total / seconds / peak_clock_mhz if seconds > 0 else None
