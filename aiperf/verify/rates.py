"""How fast each trial was trained, against the dense peak of the device that its worker says it has.

By convolutions and matrix products alone, over all of a trial's busy time: no device does more of them than its peak. A
processor's peak is what it measured of itself, beside whatever else ran there then: to be above it proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import get_args

import numpy as np

from aiperf.accounting.work_log import WorkLog
from aiperf.journal.events import TrialPrepared, WorkerJoined
from aiperf.system.peaks import DataType
from aiperf.system.worker_peak import WorkerPeak, worker_peak
from aiperf.units import flops_per_second
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

LAW = "no trial is trained faster than the dense peak of its accelerators"
LEAST_SECONDS = 1.0
"""Of a trial: below, what its last word cut off is too much of it."""


class Rates:
    """A check; `look` once all lines were shown."""

    def __init__(self) -> None:
        self._notes = Notes("rates", LAW, "trials")
        self._workers: dict[int, WorkerJoined] = {}
        self._precision: dict[int, str] = {}
        """Of each trial's last attempt."""

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {WorkerJoined: self._joined, TrialPrepared: self._prepared}

    def checked(self) -> Checked:
        """See `Check`."""
        return self._notes.checked()

    def look(self, work_log: WorkLog) -> None:
        """At the work of each trial; what is not known of its devices is said."""
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
            self._notes.not_checked = (
                f"of {unknown} trials: no peak is known of their devices in the precision they had"
            )

    def _joined(self, line: int, event: WorkerJoined) -> None:
        self._workers[event.worker] = event

    def _prepared(self, line: int, event: TrialPrepared) -> None:
        self._precision[event.trial] = event.precision

    def _peak(self, trial: int, worker: int | None) -> WorkerPeak | None:
        joined, precision = self._workers.get(-1 if worker is None else worker), self._precision.get(trial)
        kind: DataType | None = next((one for one in get_args(DataType) if one == precision), None)
        return None if joined is None or kind is None else worker_peak(joined.device, joined.machine, kind)
