"""Valid window of a run: from the end of the warm-up to the end of the run or its declared end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aiperf.accounting.intervals import Real
from aiperf.accounting.work_log import WorkLog


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


def window(work_log: WorkLog, at: float | None = None) -> Window:
    """`at`: end of the window for a run that has not ended. Default: the last event."""
    assert work_log.started is not None
    end = work_log.at if at is None else at
    if work_log.ended is not None:
        end = work_log.ended.at
    return valid_window(work_log.started.warmup_seconds, work_log.started.duration_seconds, end)


def share_inside(start: Real, end: Real, inside: Window) -> Real:
    """Return the share of each interval inside a window. One of length 0 counts after its start, at most at its end."""
    length = end - start
    overlap = np.minimum(end, inside.end) - np.maximum(start, inside.start)
    moment = ((end > inside.start) & (end <= inside.end)).astype(np.float64)
    return np.where(length > 0, np.clip(overlap, 0.0, None) / np.where(length > 0, length, 1.0), moment)
