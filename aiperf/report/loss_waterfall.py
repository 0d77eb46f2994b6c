"""Loss waterfall of a run: the difference between the accelerators' peak FLOPS and the score by cause, with the energy."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from aiperf.accounting.accelerator_time import PARTS, AcceleratorTime
from aiperf.accounting.losses import AcceleratorPeak, EnergyPart, Waterfall, waterfall
from aiperf.report.facts import Utilisation
from aiperf.system.summary import Telemetry

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
    """Return the losses from the peak FLOPS to the score in the valid window, by cause, with the energy of each.

    None without a score, a window or an accelerator, or if there is no rate to start at.
    """
    at_work = {worker: present[worker] for worker in workers if worker in present}
    top = AcceleratorPeak(used.peak_flops, used.peak_source, clock_share(used.peak_clock_mhz, measured, at_work))
    fallen = waterfall(spent, planned, flops_per_second, top)
    return None if fallen is None else with_energy(fallen, measured, present)


def with_energy(fallen: Waterfall, measured: Telemetry | None, workers: Collection[int]) -> Waterfall:
    """Return the loss waterfall with the measured joules of its parts."""
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
