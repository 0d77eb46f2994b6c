"""Dense peaks of accelerators, for model FLOPS utilisation (MFU): peaks.json, looked up by the vendor's model name.

An accelerator, board or data type that the table does not hold has no peak, and so a run on it has no MFU. Nothing is
estimated: not from clocks, and not from a relative. For a processor see `aiperf.train.matmul_peak`.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from typing import Final, Literal

import msgspec

from aiperf.units import share

DataType = Literal["fp32", "tf32", "bf16", "fp16"]

# As in the names that drivers report. H100 and H200 say nothing of their board when it is the SXM one.
_VARIANTS = (
    (re.compile(r"\bNVL\b", re.I), "NVL"),
    (re.compile(r"PCI-?E\b", re.I), "PCIe"),
    (re.compile(r"\bSXM\d?\b", re.I), "SXM"),
    (re.compile(r"\bH100 \d+GB HBM3$|\bH200$|\bB200$", re.I), "SXM"),
    (re.compile(r"\bOAM\b|\bMI(250X?|300X|325X|350X|355X)\b", re.I), "OAM"),
    (re.compile(r"\bMI(100|210)\b", re.I), "PCIe"),
)


TOLERANCE: Final = 0.02
"""Of a printed figure against units × clock × operations: sheets round, and a sparse figure would be off by 2."""


class Units(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a figure is made of."""

    count: int
    """Streaming multiprocessors or compute units that are switched on."""
    clock_mhz: float
    """That the maker's figure is printed for, as a rule the boost clock."""
    per_clock: dict[DataType, int]
    """Dense operations of one unit in one clock, a multiply-add counted as 2."""
    fp32_clock_mhz: float | None = None
    """Where FP32's figure is printed for another clock than the tensor units' (Hopper)."""

    def flops(self, dtype: DataType) -> float:
        """count × clock × operations: 108 units · 1410 MHz · 2048 = 312e12 for an A100's BF16."""
        return self.count * self.clock(dtype) * 1e6 * self.per_clock[dtype]

    def clock(self, dtype: DataType) -> float:
        """MHz that the figure of a data type is printed for."""
        return self.fp32_clock_mhz if dtype == "fp32" and self.fp32_clock_mhz is not None else self.clock_mhz


class Peak(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One accelerator on one board."""

    accelerator: str
    """A regular expression over the whole of the vendor's model name, case ignored."""
    example: str
    """A name that a driver reports for it."""
    variant: str
    """The board: SXM, PCIe, NVL, OAM, or '' where there is but one."""
    dense_flops: dict[DataType, float]
    """FLOPS without structured sparsity, with FP32 accumulation, at the data sheet's clock. A type that the device has no
    units for is left out."""
    memory_bytes_per_second: float
    """The maker's figure of the memory's bandwidth, which no program reaches whole."""
    source: str
    """The maker's data sheet or white paper, and what was halved in it."""
    held_against: str
    """Who reprints or cites the source, as read when the row was checked (21 and 22 November 2026)."""
    memory_source: str
    """Who prints the bandwidth, as read on 22 November 2026."""
    units: Units | None = None
    """None where the maker names no clock for its figure."""

    def __post_init__(self) -> None:
        if not self.dense_flops or any(not 1e12 <= flops <= 1e16 for flops in self.dense_flops.values()):
            raise ValueError(
                f"peaks are in FLOPS, 1e12 to 1e16 for one device; {self.example!r} has {self.dense_flops!r}"
            )
        if not 1e11 <= self.memory_bytes_per_second <= 2e13:
            raise ValueError(
                f"a memory's bandwidth is in bytes a second, 1e11 to 2e13; {self.example!r} has "
                f"{self.memory_bytes_per_second!r}"
            )
        if self.units is None:
            return
        for dtype, flops in self.dense_flops.items():
            made_of = self.units.flops(dtype)
            if abs(flops - made_of) > TOLERANCE * made_of:
                raise ValueError(
                    f"a dense peak is units × clock × operations per clock, within {share(TOLERANCE, 0)}; {self.example!r} has "
                    f"{dtype} = {flops!r}, its units make {made_of:.4g}: is the figure one with sparsity?"
                )


def board_variant(model: str) -> str | None:
    """The board that a model name tells of, None where it tells of none: 'NVIDIA H100 PCIe' -> 'PCIe'."""
    return next((variant for pattern, variant in _VARIANTS if pattern.search(model)), None)


@functools.cache
def table() -> tuple[Peak, ...]:
    """All rows of peaks.json, checked."""
    text = importlib.resources.files("aiperf.system").joinpath("peaks.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Peak, ...])


def peak(model: str, variant: str | None, dtype: DataType, compute_units: int | None = None) -> float | None:
    """Dense FLOPS of one device, or None where the table does not hold it.

    `model` is the name the driver reports; `variant` the board, None = as the name tells; `compute_units` how many units the
    driver counts, where it tells. Rows that fit a name which leaves the device open, and differ, give None ('AMD Instinct
    MI250X / MI250', as ROCm calls both, is either until its units are known). A device with other units than the row is
    another device. A slice of a device (MIG) is another name and has no peak.
    peak('NVIDIA A100-SXM4-80GB', None, 'bf16') == 312e12.
    """
    figures = {row.dense_flops.get(dtype) for row in _rows(model, variant, compute_units)}
    return figures.pop() if len(figures) == 1 else None


def peak_clock_mhz(model: str, variant: str | None, dtype: DataType, compute_units: int | None = None) -> float | None:
    """The clock that a device's dense peak is printed for; None where its maker names none. Found as `peak` is."""
    clocks = {None if row.units is None else row.units.clock(dtype) for row in _rows(model, variant, compute_units)}
    return clocks.pop() if len(clocks) == 1 else None


def _rows(model: str, variant: str | None, compute_units: int | None) -> list[Peak]:
    """Those that a device may be."""
    fitting = [row for row in table() if re.fullmatch(row.accelerator, model.strip(), re.IGNORECASE)]
    board = variant or board_variant(model)
    if board is not None:
        fitting = [row for row in fitting if row.variant in ("", board)]
    if compute_units is not None:
        fitting = [row for row in fitting if row.units is None or row.units.count == compute_units]
    return fitting
