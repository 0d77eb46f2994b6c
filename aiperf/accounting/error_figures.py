"""Figures of the error beside the regulated score: held out, time to a stated error, mean over time. No list ranks by them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from aiperf.accounting.intervals import Window
from aiperf.accounting.score import error_at, improvements
from aiperf.accounting.work_log import WorkLog, window

_ROUNDING = 1e-12
"""1 − 0.7 is 0.30000000000000004."""


@dataclass(frozen=True, slots=True)
class ErrorFigures:
    """Figures of a run's top-1 error. None also for another metric."""

    held_out: float | None
    """Error of the evaluation that is best on one half of the validation samples, on the other half: the mean of both ways.
    None if an evaluation does not record the halves."""
    stated: float
    """Error that the user has stated, or the largest one of the ranking."""
    stated_seconds: float | None
    """Seconds from the start of the run to the first evaluation with at most the stated error. None if there is none."""
    area: float | None
    """Mean of the best error so far over the valid window, 1 before the first evaluation. None without a window or an error."""


def error_figures(work_log: WorkLog, stated: float) -> ErrorFigures:
    """`stated`: error, above 0 and below 1."""
    inside = window(work_log)
    if error_at(work_log, inside.end) is None:
        return ErrorFigures(None, stated, None, None)
    reached = (at for at, quality in improvements(work_log) if at <= inside.end and 1.0 - quality <= stated + _ROUNDING)
    return ErrorFigures(held_out(work_log, inside.end), stated, min(reached, default=None), area(work_log, inside))


def held_out(work_log: WorkLog, moment: float) -> float | None:
    """Both ways, since one way would leave half of the samples unused: its sampling error is larger by about √2.

    The first of equally good evaluations is chosen.
    """
    best = work_log.sealed_by_half if work_log.sealed else work_log.best_by_half
    accuracies = [halves.accuracies for at, halves in best.chosen if at <= moment]
    if not best.is_complete or not accuracies:
        return None
    (_, odd), (even, _) = (max(accuracies, key=lambda of: of[half]) for half in (0, 1))
    return 1.0 - fmean((even, odd))


def area(work_log: WorkLog, inside: Window) -> float | None:
    """The error is constant between evaluations, and weighs by time."""
    if inside.seconds <= 0:
        return None
    moments = {at for at, _ in improvements(work_log) if inside.start < at < inside.end}
    parts = pairwise(sorted((inside.start, *moments, inside.end)))
    errors = ((end - start, error_at(work_log, start)) for start, end in parts)
    return math.fsum(length * (1.0 if error is None else error) for length, error in errors) / inside.seconds
