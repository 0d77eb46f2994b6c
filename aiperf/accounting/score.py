"""Score: counted operations inside the valid window ÷ its length. An interval across an edge counts in proportion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aiperf.accounting.confidence import METHOD, evenness
from aiperf.accounting.intervals import IntervalTable, Real, Window, share_inside
from aiperf.accounting.work_log import WorkLog, window
from aiperf.units import ACCURACIES

NORMAL_QUANTILE = 1.959963984540054
"""97.5 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Score:
    """Score and other results of a run. None marks an undefined value, never zero."""

    flops_per_second: float | None
    """Score in FLOPS: operations per second in the valid window. None before the end of the warm-up."""
    flops_per_second_interval: tuple[float, float] | None
    """Score × (1 ± h), with h the 95 % half width of rate ÷ expected rate: the steadiness of the machine, without the luck of
    the networks. None if the sample is too small."""
    interval_freedom: int | None
    """Student's degrees of freedom of the interval. None without an interval."""
    interval_method: int
    """Version of the interval's statistic (docs/benchmark.md)."""
    interval_basis: str
    """Sample of the interval, or the reason for its absence."""
    cumulative_flops_per_second: float
    """Operations per second since the start of the run, in FLOPS."""
    regulated_flops_per_second: float | None
    """−ln(error) × FLOPS."""
    regulated_flops_per_second_interval: tuple[float, float] | None
    """95 % interval by the sampling of the validation samples alone (`regulated_interval`). None without an error."""
    error: float | None
    """1 − best measured validation top-1 accuracy. None before the first evaluation, and for every other metric."""
    quality: float | None
    """Best measured quality in the run's metric (`quality_at`). None before the first evaluation."""
    window_seconds: float
    trials_finished: int
    rounds: int
    """Highest round with a finished trial."""
    busy_share: float | None
    """Share of all present accelerator time inside the window that was spent in training or validation steps."""
    wasted_flops: float
    """Operations that were repeated after a loss. They are not part of any score."""
    valid: bool
    """True if the run has ended, its window has a length, and a trial was finished and evaluated."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Score up to one moment of the run. Only work that still counts at the end of the run is included."""

    at: float
    flops_per_second: float | None
    """FLOPS in the valid window up to this moment. None before the window begins."""
    cumulative_flops_per_second: float
    instantaneous_flops_per_second: float
    """FLOPS since the previous point."""
    error: float | None
    regulated_flops_per_second: float | None


def score(work_log: WorkLog, at: float | None = None) -> Score:
    """`at`: moment of the score for a run that has not ended. Default: the last event."""
    assert work_log.started is not None
    valid_window, end = window(work_log, at), window(work_log, at).end
    busy = busy_share(work_log, valid_window)
    flops = window_work(work_log, valid_window) / valid_window.seconds if valid_window.seconds > 0 else None
    error, quality = error_at(work_log, end), quality_at(work_log, end)
    spread = evenness(work_log, valid_window)
    weighted, between = None, None
    if flops is not None and error is not None:
        weighted = regulated(flops, error)
        between = regulated_interval(flops, error, int(work_log.started.dataset["validation_images"]))
    return Score(
        flops_per_second=flops,
        flops_per_second_interval=spread.interval,
        interval_freedom=spread.freedom,
        interval_method=METHOD,
        interval_basis=spread.basis,
        cumulative_flops_per_second=window_work(work_log, Window(0.0, end)) / end if end > 0 else 0.0,
        regulated_flops_per_second=weighted,
        regulated_flops_per_second_interval=between,
        error=error,
        quality=quality,
        window_seconds=valid_window.seconds,
        trials_finished=len(work_log.finished),
        rounds=max((round_ for _, round_ in work_log.finished), default=0),
        busy_share=busy,
        wasted_flops=math.fsum(work_log.intervals.wasted.tolist()),
        valid=flops is not None
        and flops > 0
        and quality is not None
        and bool(work_log.finished)
        and work_log.ended is not None,
    )


def regulated(flops_per_second: float, error: float) -> float:
    """Return the regulated score in FLOPS: −ln(error) × FLOPS (equation 3 of the AIPerf paper). `error`: above 0, at most 1.

    >>> round(regulated(1.0, 0.30), 3), round(regulated(1.0, 0.25), 3)
    (1.204, 1.386)
    """
    return -math.log(error) * flops_per_second


def regulated_interval(flops_per_second: float, error: float, samples: int) -> tuple[float, float]:
    """Return the 95 % interval of the regulated score by the sampling of `samples` validation samples.

    Wilson's interval of the error (Journal of the American Statistical Association 22, 1927), not below 1/(2·samples).

    >>> low, high = regulated_interval(1.0, 0.0667, 360)  # 24 errors: 4.5 to 9.7 %
    >>> round(low, 2), round(high, 2)
    (2.33, 3.1)
    """
    square = NORMAL_QUANTILE**2 / samples
    half = math.sqrt(square * (error * (1 - error) + square / 4))
    low, high = ((error + square / 2 + side) / (1 + square) for side in (-half, half))
    return regulated(flops_per_second, min(1.0, high)), regulated(flops_per_second, max(1 / (2 * samples), low))


def error_at(work_log: WorkLog, moment: float) -> float | None:
    """Return 1 − best counted top-1 accuracy by `moment`, at least 1/(2·validation images). None for another metric."""
    assert work_log.started is not None
    best = quality_at(work_log, moment)
    if best is None or work_log.started.metric not in ACCURACIES:
        return None
    return max(1.0 - best, 1.0 / (2 * int(work_log.started.dataset["validation_images"])))


def quality_at(work_log: WorkLog, moment: float) -> float | None:
    """Return the best quality of the evaluations until `moment`, with seals in the journal of sealed ones. None without one."""
    return max((quality for at, quality in improvements(work_log) if at <= moment), default=None)


def improvements(work_log: WorkLog) -> list[tuple[float, float]]:
    """Return (at, quality) of the evaluations that may give the quality: each was better than all before."""
    return [(each.evaluation.at, each.evaluation.accuracy) for each in work_log.sealed] or work_log.accuracies


def window_work(work_log: WorkLog, inside: Window) -> float:
    return _total(work_log.intervals.flops, work_log, inside)


def _total(amount: Real, work_log: WorkLog, inside: Window) -> float:
    rows = work_log.intervals
    return math.fsum((amount * share_inside(rows.start, rows.end, inside)).tolist())


def busy_share(work_log: WorkLog, inside: Window) -> float | None:
    """Return the share of (maximum of simultaneously present accelerators × window) spent in steps. None if it is 0."""
    whole, rows = capacity(work_log) * inside.seconds, work_log.intervals
    return _total(rows.clock("busy") * rows.ranks, work_log, inside) / whole if whole > 0 else None


def capacity(work_log: WorkLog) -> int:
    """Return the maximum number of accelerators present at the same time, by their number when the worker joined."""
    changes = [(presence.joined, presence.ranks) for presence in work_log.presences]
    changes += [(presence.left, -presence.ranks) for presence in work_log.presences if presence.left is not None]
    most = present = 0
    for _, change in sorted(changes):  # a worker that leaves when another joins is never counted with it
        present += change
        most = max(most, present)
    return most


def curve(work_log: WorkLog, points: int = 200) -> tuple[CurvePoint, ...]:
    """Return the score up to `points` evenly spaced moments until the end or the declared end. Empty for a run of 0 s."""
    valid_window = window(work_log)
    if valid_window.end <= 0:
        return ()
    moments = np.linspace(0.0, valid_window.end, points + 1)[1:]
    done = _accumulated(work_log.intervals, np.append(moments, valid_window.start))
    at_start = float(done[-1])
    last = len(moments) - 1
    drawn: list[CurvePoint] = []
    before_at, before = 0.0, 0.0
    for index, (moment, total) in enumerate(zip(moments.tolist(), done[:-1].tolist(), strict=True)):
        inside = moment - valid_window.start
        counted = total - at_start
        if index == last:  # summed like the score, so that the curve ends at the score to the last digit
            total, counted = window_work(work_log, Window(0.0, moment)), window_work(work_log, valid_window)
        flops = counted / inside if inside > 0 else None
        error = error_at(work_log, moment)
        drawn.append(
            CurvePoint(
                at=moment,
                flops_per_second=flops,
                cumulative_flops_per_second=total / moment,
                instantaneous_flops_per_second=(total - before) / (moment - before_at),
                error=error,
                regulated_flops_per_second=None if flops is None or error is None else regulated(flops, error),
            )
        )
        before_at, before = moment, total
    return tuple(drawn)


SHARES = (0.05, 0.02, 0.01)
"""Half widths of the bands, as shares of the final score."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Time from which the running score stays within a band around its final value."""

    share: float
    """Half the band's width, as a share of the final score."""
    at: float
    """Seconds since the run's start from which the score stays inside the band. The curve's end if it never stays before."""
    part_of_window: float
    """Share of the window before `at`. Near 1: the window is too short for this precision."""


def settled(curve: Sequence[CurvePoint], inside: Window, shares: Sequence[float] = SHARES) -> tuple[Settled, ...]:
    """Return, for each share, the seconds from which the running score stays within ± that share of its final value."""
    points = [(point.at, point.flops_per_second) for point in curve if point.flops_per_second is not None]
    if not points or not points[-1][1]:
        return ()
    last_at, last = points[-1]
    bands = []
    for band in shares:
        since = last_at
        for at, value in reversed(points):
            if abs(value / last - 1) > band:
                break
            since = at
        bands.append(Settled(band, since, (since - inside.start) / inside.seconds))
    return tuple(bands)


def _accumulated(rows: IntervalTable, moments: Real) -> Real:
    if not len(rows):
        return np.zeros(len(moments))
    # An interval without length is given a microsecond: a curve cannot jump.
    end = rows.end
    length = np.maximum(end - rows.start, 1e-6)
    rate = rows.flops / length
    edges = np.concatenate([end - length, end])
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    rates = np.cumsum(np.concatenate([rate, -rate])[order])
    total = np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(edges))])
    return np.asarray(np.interp(moments, edges, total), dtype=np.float64)
