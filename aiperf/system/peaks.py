"""Published peak rates of accelerators (peaks.json), and the peak of a worker. An unlisted device has neither peak nor MFU."""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from aiperf.errors import BadConfiguration

DataType = Literal["fp32", "tf32", "bf16", "fp16"]

# As drivers report the names. The SXM boards of H100 and H200 have no board in their name.
_VARIANTS = (
    (re.compile(r"\bNVL\b", re.I), "NVL"),
    (re.compile(r"PCI-?E\b", re.I), "PCIe"),
    (re.compile(r"\bSXM\d?\b", re.I), "SXM"),
    (re.compile(r"\bH100 \d+GB HBM3$|\bH[28]00$|\bB200$", re.I), "SXM"),
    (re.compile(r"\bOAM\b|\bMI(250X?|300X|325X|350X|355X)\b", re.I), "OAM"),
    (re.compile(r"\bMI(100|210)\b", re.I), "PCIe"),
)


class Units(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    count: int
    clock_mhz: float
    per_clock: dict[DataType, int]
    """Dense operations per unit and clock. A multiply-add counts as 2."""
    fp32_clock_mhz: float | None = None
    """Clock of the FP32 peak if it differs from that of the tensor units (Hopper)."""

    def flops(self, dtype: DataType) -> float:
        """Return the dense peak in FLOPS. 108 units · 1410 MHz · 2048 = 312e12 for BF16 on an A100."""
        return self.count * self.clock(dtype) * 1e6 * self.per_clock[dtype]

    def clock(self, dtype: DataType) -> float:
        return self.fp32_clock_mhz if dtype == "fp32" and self.fp32_clock_mhz is not None else self.clock_mhz


class Peak(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Row of peaks.json: published peak rates of one accelerator model on one board."""

    accelerator: str
    """Regular expression for the whole model name of the vendor, case-insensitive."""
    example: str
    variant: str
    """Board: SXM, PCIe, NVL, OAM, or '' if there is only one."""
    dense_flops: dict[DataType, float]
    """FLOPS without structured sparsity, with FP32 accumulation, at the data sheet's clock. Unsupported data types are left
    out."""
    memory_bytes_per_second: float
    source: str
    """The maker's data sheet or white paper, and the values that were halved."""
    held_against: str
    """Secondary sources, as read when the row was checked (21 and 22 November 2026)."""
    memory_source: str
    units: Units | None = None
    """None if the maker publishes no clock for the peak."""


def board_variant(model: str) -> str | None:
    """Return the board in a model name: 'NVIDIA H100 PCIe' gives 'PCIe'. None if the name contains none."""
    return next((variant for pattern, variant in _VARIANTS if pattern.search(model)), None)


@functools.cache
def table() -> tuple[Peak, ...]:
    text = importlib.resources.files("aiperf.system").joinpath("peaks.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Peak, ...])


def peak(model: str, variant: str | None, dtype: DataType, compute_units: int | None = None) -> float | None:
    """Return the published dense peak (no sparsity) of one accelerator in FLOPS. None if it is unknown or ambiguous.

    `model`: name that the driver reports. `variant`: board, such as SXM. None: as the name indicates. `compute_units`:
    multiprocessors or compute units that the driver counts, None if unknown. For example ROCm reports 'AMD Instinct MI250X /
    MI250' for both, which is ambiguous until the units are known. A slice of a device (MIG) has another name and no peak.
    peak('NVIDIA A100-SXM4-80GB', None, 'bf16') == 312e12.
    """
    figures = {row.dense_flops.get(dtype) for row in _rows(model, variant, compute_units)}
    return figures.pop() if len(figures) == 1 else None


def fastest_peak(name: str, precision: str, declared: Mapping[str, Any]) -> float | None:
    """Return the highest peak in FLOPS that an accelerator called so can have: published, else declared. None if none is known.

    `name`: as the driver reports it, or a part of it, such as H100. `precision`: 'auto' for the fastest.
    """
    part = name.strip().lower()
    rows = _rows(name, None, None) or [row for row in table() if part and part in row.example.lower()]
    for figures in (*(row.dense_flops for row in rows),), (declared,):
        known = [flops for each in figures for dtype, flops in each.items() if precision in ("auto", dtype)]
        if known := [float(flops) for flops in known if not isinstance(flops, str)]:
            return max(known)
    return None


def memory_bandwidth(model: str, variant: str | None, compute_units: int | None = None) -> float | None:
    """Return the published memory bandwidth in bytes/s, by the arguments of `peak`. None if it is unknown or ambiguous."""
    figures = {row.memory_bytes_per_second for row in _rows(model, variant, compute_units)}
    return figures.pop() if len(figures) == 1 else None


def peak_clock_mhz(model: str, variant: str | None, dtype: DataType, compute_units: int | None = None) -> float | None:
    """Return the clock of the published dense peak, by the arguments of `peak`. None if it is unknown or ambiguous."""
    clocks = {None if row.units is None else row.units.clock(dtype) for row in _rows(model, variant, compute_units)}
    return clocks.pop() if len(clocks) == 1 else None


def _rows(model: str, variant: str | None, compute_units: int | None) -> list[Peak]:
    fitting = [row for row in table() if re.fullmatch(row.accelerator, model.strip(), re.IGNORECASE)]
    board = variant or board_variant(model)
    if board is not None:
        fitting = [row for row in fitting if row.variant in ("", board)]
    if compute_units is not None:
        fitting = [row for row in fitting if row.units is None or row.units.count == compute_units]
    return fitting


MEASURED_PEAK = "measured_matmul_flops"
"""Key of the measured matrix multiplication rate in a worker's system description: data type → FLOPS of one rank."""


@dataclass(frozen=True, slots=True)
class WorkerPeak:
    flops: float
    source: str
    is_measured: bool
    """True if the worker measured it, possibly next to other programs. False if the maker published it, or the user declared
    it."""
    is_declared: bool = False
    """True if the user declared it (option system.peak)."""
    clock_mhz: float | None = None


def check_declared(peak: Mapping[str, Any]) -> None:
    """Raise BadConfiguration if the option system.peak is no mapping of precisions to FLOPS, with the text `source`."""
    figures = {name: value for name, value in peak.items() if name != "source"}
    known, source = get_args(DataType), peak.get("source")
    if not figures or not figures.keys() <= {*known} or not isinstance(source, str) or not source.strip():
        raise BadConfiguration(
            f"system.peak needs FLOPS by precision ({', '.join(known)}) and the source of these figures, but found "
            f"{dict(peak)!r}: system.peak='{{bf16: 2.5e14, source: SHEET}}'"
        )
    for name, flops in figures.items():
        if isinstance(flops, bool) or not isinstance(flops, int | float) or not 1e9 <= flops <= 1e18:
            raise BadConfiguration(
                f"system.peak.{name} is between 1e9 and 1e18 FLOPS of one accelerator, but found {flops!r}: give its dense "
                "peak as a number (in a YAML file 2.5e+14)"
            )


def declared_peak(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return system.peak of a run's configuration. Empty if it has none, or no valid one (a forged journal)."""
    form = config.get("system")
    peak = form.get("peak") if isinstance(form, dict) else None
    declared: dict[str, Any] = peak if isinstance(peak, dict) else {}
    try:
        check_declared(declared)
    except BadConfiguration:
        return {}
    return declared


def worker_peak(
    device: str, machine: Mapping[str, Any], precision: DataType, declared: Mapping[str, Any]
) -> WorkerPeak | None:
    """Return the peak of one rank: published for its accelerator, else declared, else measured. None if none is known.

    `device`: model name of the rank's device. `machine`: description of the host that the worker sent when it joined.
    `declared`: as returned by `declared_peak`.
    """
    units = _compute_units(machine)
    dense = peak(device, None, precision, units)
    if dense is not None:
        clock = peak_clock_mhz(device, None, precision, units)
        unused = (
            f" (published: the declared {declared[precision]:g} FLOPS do not count)" if precision in declared else ""
        )
        return WorkerPeak(dense, f"dense peak of {device} in {precision}{unused}", is_measured=False, clock_mhz=clock)
    if precision in declared:
        source = f"declared peak of {device} in {precision} (system.peak, source: {declared['source']})"
        return WorkerPeak(float(declared[precision]), source, is_measured=False, is_declared=True)
    measured: Any = machine.get(MEASURED_PEAK)
    if isinstance(measured, dict) and precision in measured:
        source = f"matrix product measured on this host in {precision}"
        return WorkerPeak(float(measured[precision]), source, is_measured=True)
    return None


def _compute_units(machine: Mapping[str, Any]) -> int | None:
    units = {device.get("compute_units") for device in machine.get("accelerators", ())}
    return units.pop() if len(units) == 1 else None
