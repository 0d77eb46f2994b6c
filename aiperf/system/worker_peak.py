"""Reference peak of a worker: dense peak of its accelerator, or the matrix multiplication rate measured on its processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiperf.system.peaks import DataType, peak, peak_clock_mhz

MEASURED_PEAK = "measured_matmul_flops"
"""Key of the measured matrix multiplication rate in a worker's system description: data type → FLOPS of one rank."""


@dataclass(frozen=True, slots=True)
class WorkerPeak:
    """Peak of one rank."""

    flops: float
    source: str
    """Description of the source for reports."""
    is_measured: bool
    """True if the worker measured it, possibly next to other programs. False if the maker published it."""
    clock_mhz: float | None = None
    """Clock of the published peak, if it is known."""


def worker_peak(device: str, machine: Mapping[str, Any], precision: DataType) -> WorkerPeak | None:
    """Return the peak of a worker with this device and machine, as in its WorkerJoined. None if no peak is known."""
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
    """Return the compute units of the host's accelerators if a sampler reported them and all are equal."""
    units = {device.get("compute_units") for device in machine.get("accelerators", ())}
    return units.pop() if len(units) == 1 else None
