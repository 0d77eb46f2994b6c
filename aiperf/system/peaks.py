"""Dense peaks of accelerators, for model FLOPS utilisation (MFU): peaks.json, looked up by the vendor's model name.

An accelerator, board or data type that the table does not hold has no peak, and so a run on it has no MFU. Nothing is
estimated: not from clocks, and not from a relative. For a processor see `aiperf.train.matmul_peak`.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from typing import Literal

import msgspec

DataType = Literal["fp32", "tf32", "bf16", "fp16"]

# As in the names that drivers report. H100 and H200 say nothing of their board when it is the SXM one.
_VARIANTS = (
    (re.compile(r"\bNVL\b", re.I), "NVL"),
    (re.compile(r"PCI-?E\b", re.I), "PCIe"),
    (re.compile(r"\bSXM\d?\b", re.I), "SXM"),
    (re.compile(r"\bH100 \d+GB HBM3$|\bH200$|\bB200$", re.I), "SXM"),
    (re.compile(r"\bOAM\b|\bMI(250X?|300X|325X)\b", re.I), "OAM"),
    (re.compile(r"\bMI(100|210)\b", re.I), "PCIe"),
)


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
    source: str
    """The data sheet, and what was halved in it."""

    def __post_init__(self) -> None:
        if not self.dense_flops or any(not 1e12 <= flops <= 1e16 for flops in self.dense_flops.values()):
            raise ValueError(
                f"peaks are in FLOPS, 1e12 to 1e16 for one device; {self.example!r} has {self.dense_flops!r}"
            )


def board_variant(model: str) -> str | None:
    """The board that a model name tells of, None where it tells of none: 'NVIDIA H100 PCIe' -> 'PCIe'."""
    return next((variant for pattern, variant in _VARIANTS if pattern.search(model)), None)


@functools.cache
def table() -> tuple[Peak, ...]:
    """All rows of peaks.json, checked."""
    text = importlib.resources.files("aiperf.system").joinpath("peaks.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Peak, ...])


def peak(model: str, variant: str | None, dtype: DataType) -> float | None:
    """Dense FLOPS of one device, or None where the table does not hold it.

    `model` is the name the driver reports; `variant` the board, None = as the name tells. Rows that fit a name which
    leaves the board open, and differ, give None. A slice of a device (MIG) is another name and has no peak.
    peak('NVIDIA A100-SXM4-80GB', None, 'bf16') == 312e12.
    """
    fitting = [row for row in table() if re.fullmatch(row.accelerator, model.strip(), re.IGNORECASE)]
    board = variant or board_variant(model)
    if board is not None:
        fitting = [row for row in fitting if row.variant in ("", board)]
    figures = {row.dense_flops.get(dtype) for row in fitting}
    return figures.pop() if len(figures) == 1 else None
