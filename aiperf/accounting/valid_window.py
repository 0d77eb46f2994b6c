"""Valid window of a run, in which work counts: from the end of the warm-up to the end of the run or its declared end.

Every figure of a run uses these functions: score, losses, ranking rules, report and live values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aiperf.accounting.intervals import Real
from aiperf.accounting.work_log import WorkLog


@dataclass(frozen=True, slots=True)
class Window:
    """Start and end of a time window in seconds since the start of the run, on the driver's clock."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Length of the window in seconds. 0 if the window never began."""
        return max(0.0, self.end - self.start)


def valid_window(warmup_seconds: float, duration_seconds: float, end: float) -> Window:
    """Return the valid window: from `warmup_seconds` to `end`, at most to the declared `duration_seconds`.

    All times are seconds since the run's start. `end`: end of the run, or the present time. The length is 0 during the warm-up.
    """
    return Window(warmup_seconds, min(end, duration_seconds))


def window(work_log: WorkLog, at: float | None = None) -> Window:
    """Return the valid window of a run from its work log (events of the journal).

    `at`: end of the window for a run that has not ended, in seconds since its start. Default: the last event. It has no effect
    on an ended run.
    """
    assert work_log.started is not None
    end = work_log.at if at is None else at
    if work_log.ended is not None:
        end = work_log.ended.at
    return valid_window(work_log.started.warmup_seconds, work_log.started.duration_seconds, end)


def share_inside(start: Real, end: Real, inside: Window) -> Real:
    """Return the share of each interval that is inside a window, 0..1, shape (intervals,).

    `start`, `end`: of each interval in seconds since the run's start. An interval of length 0 has share 1 if it is in the
    window (after its start, at most at its end), else 0.
    """
    length = end - start
    overlap = np.minimum(end, inside.end) - np.maximum(start, inside.start)
    moment = ((end > inside.start) & (end <= inside.end)).astype(np.float64)
    return np.where(length > 0, np.clip(overlap, 0.0, None) / np.where(length > 0, length, 1.0), moment)
