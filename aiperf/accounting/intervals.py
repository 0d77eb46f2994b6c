"""Compact table of work intervals. A long run has two million of them.

A row is appended with one call. Columns are read as vectors.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from aiperf.journal.events import Work

_ROW = np.dtype(
    [(name, "<i8") for name in ("worker", "ranks", "trial", "training_images")]
    + [
        (name, "<f8")
        for name in (
            "start",
            "end",
            "flops",
            "wasted",
            "tensor_flops",
            "busy",
            "communication",
            "validation",
            "input",
            "checkpoint",
        )
    ]
)
_PACKED = struct.Struct("<4q10d")
_pack = _PACKED.pack
_ROW_BYTES = _PACKED.size
_FLOPS_AND_WASTED = struct.Struct("<2d")
assert _ROW.fields is not None and _ROW.itemsize == _PACKED.size, "a row is written and read in one form"
_FLOPS_AT: int = _ROW.fields["flops"][1]

Whole = npt.NDArray[np.int64]
Real = npt.NDArray[np.float64]


@dataclass(slots=True)
class IntervalTable:
    """Table with one interval per row. Each property is a copy of one column, with shape (rows,)."""

    _rows: bytearray = field(default_factory=bytearray)

    def append(self, trial: int, work: Work, ranks: int, flops: int, tensor_flops: int) -> int:
        """Append an interval and return its row index.

        `flops`: its counted operations.
        `tensor_flops`: operations of convolutions and matrix products alone.
        """
        rows = self._rows
        index = len(rows) // _ROW_BYTES
        rows += _pack(
            work.worker,
            ranks,
            trial,
            work.training_images,
            work.start,
            work.end,
            flops,
            0.0,
            tensor_flops,
            work.busy_seconds,
            work.communication_seconds,
            work.validation_seconds,
            work.input_seconds,
            work.checkpoint_seconds,
        )
        return index

    def waste(self, index: int) -> None:
        """Move the operations of a row from counted to wasted, because its work was repeated."""
        at = index * _ROW_BYTES + _FLOPS_AT
        flops, wasted = _FLOPS_AND_WASTED.unpack_from(self._rows, at)
        _FLOPS_AND_WASTED.pack_into(self._rows, at, 0.0, flops + wasted)

    def __len__(self) -> int:
        return len(self._rows) // _ROW_BYTES

    @property
    def worker(self) -> Whole:
        """Number of the worker."""
        return self._whole("worker")

    @property
    def ranks(self) -> Whole:
        """Number of participating accelerators."""
        return self._whole("ranks")

    @property
    def trial(self) -> Whole:
        """Number of the trial."""
        return self._whole("trial")

    @property
    def training_images(self) -> Whole:
        """Images over all ranks, counted or wasted."""
        return self._whole("training_images")

    @property
    def start(self) -> Real:
        """Seconds since the start of the run."""
        return self._real("start")

    @property
    def end(self) -> Real:
        """Seconds since the start of the run."""
        return self._real("end")

    @property
    def flops(self) -> Real:
        """Counted operations. 0 if wasted."""
        return self._real("flops")

    @property
    def wasted(self) -> Real:
        """Repeated operations. 0 if counted."""
        return self._real("wasted")

    @property
    def tensor_flops(self) -> Real:
        """Operations of convolutions and matrix products alone, counted or wasted."""
        return self._real("tensor_flops")

    @property
    def busy(self) -> Real:
        """Seconds of one rank in training or validation steps."""
        return self._real("busy")

    @property
    def communication(self) -> Real:
        """Part of the busy seconds: gradient exchange that did not overlap with computation."""
        return self._real("communication")

    @property
    def validation(self) -> Real:
        """Part of the busy seconds: validation steps."""
        return self._real("validation")

    @property
    def input(self) -> Real:
        """Seconds of one rank waiting for images."""
        return self._real("input")

    @property
    def checkpoint(self) -> Real:
        """Seconds of training stopped by a checkpoint."""
        return self._real("checkpoint")

    def _whole(self, name: str) -> Whole:
        return np.array(self._table()[name], dtype=np.int64)

    def _real(self, name: str) -> Real:
        return np.array(self._table()[name], dtype=np.float64)

    def _table(self) -> npt.NDArray[np.void]:
        # A view, of which only copies are returned: no row can be added while a view exists.
        return np.frombuffer(self._rows, dtype=_ROW)
