"""The peak that a worker's work is held to: its accelerator's dense one, or the matrix product that its processor measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiperf.system.peaks import DataType, peak, peak_clock_mhz

MEASURED_PEAK = "measured_matmul_flops"
"""Where a worker's system description holds the rate of matrix products it measured: data type → FLOPS of one rank."""


@dataclass(frozen=True, slots=True)
class WorkerPeak:
    """Of one rank."""

    flops: float
    source: str
    """In words."""
    is_measured: bool
    """By the worker itself, beside whatever else ran there then; else it is the maker's."""
    clock_mhz: float | None = None
    """That the maker's figure is printed for, where that is known."""


def worker_peak(device: str, machine: Mapping[str, Any], precision: DataType) -> WorkerPeak | None:
    """Of a worker with that device on that machine, as its WorkerJoined says both; None where none is known."""
    units = _compute_units(machine)
    dense = peak(device, None, precision, units)
    if dense is not None:
        clock = peak_clock_mhz(device, None, precision, units)
        return WorkerPeak(dense, f"dense peak of {device} in {precision}", is_measured=False, clock_mhz=clock)
    measured: Any = machine.get(MEASURED_PEAK)
    if isinstance(measured, dict) and precision in measured:
        source = f"matrix product measured on this host in {precision}"
        return WorkerPeak(float(measured[precision]), source, is_measured=True)
    return None


def _compute_units(machine: Mapping[str, Any]) -> int | None:
    """Of each of the host's accelerators, where a sampler told and all are alike."""
    told = {device.get("compute_units") for device in machine.get("accelerators", ())}
    return told.pop() if len(told) == 1 else None
