"""Check of training rates against the dense peak of the worker's device.

The rate counts the operations of convolutions and matrix products over a trial's busy time. No device exceeds its peak. A
processor's peak was measured with other processes on the host, so a rate above it proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import get_args

import numpy as np

from aiperf.accounting.work_log import WorkLog
from aiperf.journal.events import TrialPrepared, WorkerJoined
from aiperf.system.peaks import DataType, WorkerPeak, worker_peak
from aiperf.units import flops_per_second
from aiperf.verify.check import Check, Handler, Notes

LAW = "no trial is trained faster than the dense peak of its accelerators"
LEAST_SECONDS = 1.0
"""Shortest examined trial in seconds. In a shorter one the time after its last message is too large a part."""


class Rates(Check):
    """Check training rates. Call `add_work` after the last line."""

    def __init__(self) -> None:
        self._notes = Notes("rates", LAW, "trials")
        self._workers: dict[int, WorkerJoined] = {}
        self._precision: dict[int, str] = {}
        """Precision of each trial's last attempt."""

    def handlers(self) -> Mapping[type, Handler]:
        return {WorkerJoined: self._joined, TrialPrepared: self._prepared}

    def add_work(self, work_log: WorkLog) -> None:
        """Check the rate of each trial, and count trials on devices of unknown peak."""
        rows = work_log.intervals
        trials, busy, tensor = rows.trial, rows.busy, rows.tensor_flops
        peaks = {number: self._peak(number, record.worker) for number, record in work_log.trials.items()}
        size = max(peaks, default=-1) + 1
        seconds = np.bincount(trials, busy * rows.ranks, minlength=size)
        length = np.bincount(trials, rows.end - rows.start, minlength=size)
        done = np.bincount(trials, tensor, minlength=size)
        unknown = 0
        for number, at_best in peaks.items():
            if length[number] < LEAST_SECONDS:
                continue
            if at_best is None:
                unknown += 1
                continue
            self._notes.examined += 1
            rate = done[number] / seconds[number] if seconds[number] > 0 else math.inf if done[number] else 0.0
            if rate > at_best.flops:
                self._notes.add(
                    None,
                    LAW,
                    f"trial {number}: {done[number]:.6g} operations in {seconds[number]:.6g} s of busy accelerators, "
                    f"{'measured' if at_best.is_measured else 'dense'} peak {flops_per_second(at_best.flops)}",
                    "cannot be determined" if at_best.is_measured else "contradiction",
                )
        if unknown:
            self._notes.not_checked = f"{unknown} trials: the peak of their devices in their precision is not known"

    def _joined(self, line: int, event: WorkerJoined) -> None:
        self._workers[event.worker] = event

    def _prepared(self, line: int, event: TrialPrepared) -> None:
        self._precision[event.trial] = event.precision

    def _peak(self, trial: int, worker: int | None) -> WorkerPeak | None:
        joined, precision = self._workers.get(-1 if worker is None else worker), self._precision.get(trial)
        kind: DataType | None = next((one for one in get_args(DataType) if one == precision), None)
        return None if joined is None or kind is None else worker_peak(joined.device, joined.machine, kind)
