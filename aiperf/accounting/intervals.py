"""Compact table of a run's work intervals, of which a long run has two million. Columns are read as vectors."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from aiperf.journal.events import CLOCKS, Work, clocks

_PACKED = struct.Struct(f"<5q{5 + len(CLOCKS)}d")
_pack = _PACKED.pack
_ROW_BYTES = _PACKED.size
_FLOPS_AND_WASTED = struct.Struct("<2d")

Real = npt.NDArray[np.float64]
_Kind = TypeVar("_Kind", np.int64, np.float64)


class _Column(Generic[_Kind]):
    """Column of the table, by its name. A copy with shape (rows,)."""

    def __init__(self, kind: type[_Kind]) -> None:
        self.kind: type[_Kind] = kind

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, table: IntervalTable, owner: type) -> npt.NDArray[_Kind]:
        return table.column(self._name, self.kind)


@dataclass(slots=True)
class IntervalTable:
    _rows: bytearray = field(default_factory=bytearray)

    worker = _Column(np.int64)
    ranks = _Column(np.int64)
    trial = _Column(np.int64)
    epoch = _Column(np.int64)
    training_images = _Column(np.int64)
    """Images over all ranks, counted or wasted."""
    start = _Column(np.float64)
    """Seconds since the start of the run."""
    end = _Column(np.float64)
    """Seconds since the start of the run."""
    flops = _Column(np.float64)
    """Counted operations. 0 if wasted."""
    wasted = _Column(np.float64)
    """Repeated operations. 0 if counted."""
    tensor_flops = _Column(np.float64)
    """Operations of convolutions and matrix products alone, counted or wasted."""

    def clock(self, name: str) -> Real:
        """Return the seconds of a field of `CLOCKS`, without its ending `_seconds`. Busy seconds are those of one rank."""
        return self.column(f"{name}_seconds", np.float64)

    def column(self, name: str, kind: type[_Kind]) -> npt.NDArray[_Kind]:
        # A copy, because no row can be added while a view exists.
        return np.array(np.frombuffer(self._rows, dtype=_ROW)[name], dtype=kind)

    def append(self, trial: int, epoch: int, work: Work, ranks: int, flops: int, tensor_flops: int) -> int:
        """Append a row as counted work, and return its index."""
        rows = self._rows
        index = len(rows) // _ROW_BYTES
        rows += _pack(
            work.worker,
            ranks,
            trial,
            epoch,
            work.training_images,
            work.start,
            work.end,
            flops,
            0.0,
            tensor_flops,
            *clocks(work),
        )
        return index

    def waste(self, index: int) -> None:
        """Move the operations of a row from `flops` to `wasted`. A second call changes nothing."""
        at = index * _ROW_BYTES + _FLOPS_AT
        flops, wasted = _FLOPS_AND_WASTED.unpack_from(self._rows, at)
        _FLOPS_AND_WASTED.pack_into(self._rows, at, 0.0, flops + wasted)

    def __len__(self) -> int:
        return len(self._rows) // _ROW_BYTES


_OWN = [(name, each.kind) for name, each in vars(IntervalTable).items() if isinstance(each, _Column)]
_ROW = np.dtype([*_OWN, *((name, np.float64) for name in CLOCKS)])
assert _ROW.fields is not None and _ROW.itemsize == _ROW_BYTES, "a row is written and read in one form"
_FLOPS_AT: int = _ROW.fields["flops"][1]


@dataclass(frozen=True, slots=True)
class Window:
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return max(0.0, self.end - self.start)


def valid_window(warmup_seconds: float, duration_seconds: float, end: float) -> Window:
    """Return the window from `warmup_seconds` to `end`, at most to `duration_seconds`. Its length is 0 during the warm-up."""
    return Window(warmup_seconds, min(end, duration_seconds))


def share_inside(start: Real, end: Real, inside: Window) -> Real:
    """Return the share of each interval inside a window. One of length 0 counts after its start, at most at its end."""
    length = end - start
    overlap = np.minimum(end, inside.end) - np.maximum(start, inside.start)
    moment = ((end > inside.start) & (end <= inside.end)).astype(np.float64)
    return np.where(length > 0, np.clip(overlap, 0.0, None) / np.where(length > 0, length, 1.0), moment)
