"""Score of a run: counted operations inside the valid window ÷ its length, from its work log (docs/benchmark.md).

An interval across an edge counts in proportion. Time while a killed run is down is included.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from aiperf.accounting.confidence import METHOD, evenness
from aiperf.accounting.intervals import IntervalTable, Real
from aiperf.accounting.valid_window import Window, share_inside, window
from aiperf.accounting.work_log import WorkLog
from aiperf.run_warning import RunWarning
from aiperf.shell_command import command
from aiperf.units import count, noun, share


@dataclass(frozen=True, slots=True)
class Score:
    """Score and other results of a run. None marks an undefined value, never zero."""

    flops_per_second: float | None
    """Score in FLOPS: operations per second in the valid window. None before the end of the warm-up."""
    flops_per_second_interval: tuple[float, float] | None
    """95 % interval for the steadiness of this run, not for runs with other seeds. None if the sample is too small."""
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
    error: float | None
    """1 − best measured validation top-1 accuracy. None before the first evaluation, and for every other metric."""
    quality: float | None
    """Best measured quality in the run's metric. None before the first evaluation."""
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
    warnings: tuple[RunWarning, ...]
    """Warnings to show next to the number."""


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
    return Score(
        flops_per_second=flops,
        flops_per_second_interval=spread.interval,
        interval_freedom=spread.freedom,
        interval_method=METHOD,
        interval_basis=spread.basis,
        cumulative_flops_per_second=window_work(work_log, Window(0.0, end)) / end if end > 0 else 0.0,
        regulated_flops_per_second=None if flops is None or error is None else regulated(flops, error),
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
        warnings=_warnings(work_log, valid_window, busy),
    )


def regulated(flops_per_second: float, error: float) -> float:
    """Return the regulated score in FLOPS: −ln(error) × FLOPS (equation 3 of the AIPerf paper). `error`: above 0, at most 1.

    >>> round(regulated(1.0, 0.30), 3), round(regulated(1.0, 0.25), 3)
    (1.204, 1.386)
    """
    return -math.log(error) * flops_per_second


def error_at(work_log: WorkLog, moment: float) -> float | None:
    """Return the error, 0..1: 1 − best top-1 accuracy of the counted evaluations that ended by `moment`.

    At least 1/(2·validation images). None before the first evaluation, and for another metric.
    """
    assert work_log.started is not None
    best = quality_at(work_log, moment)
    if best is None or work_log.started.metric != "top1":
        return None
    return max(1.0 - best, 1.0 / (2 * int(work_log.started.dataset["validation_images"])))


def quality_at(work_log: WorkLog, moment: float) -> float | None:
    """Return the best quality of the counted evaluations that ended by `moment`. None before the first one."""
    return max((quality for at, quality in work_log.accuracies if at <= moment), default=None)


def window_work(work_log: WorkLog, inside: Window) -> float:
    return _total(work_log.intervals.flops, work_log, inside)


def _total(amount: Real, work_log: WorkLog, inside: Window) -> float:
    rows = work_log.intervals
    return math.fsum((amount * share_inside(rows.start, rows.end, inside)).tolist())


def busy_share(work_log: WorkLog, inside: Window) -> float | None:
    """Return the share of (maximum of simultaneously present accelerators × window) spent in steps. None if it is 0."""
    whole, rows = capacity(work_log) * inside.seconds, work_log.intervals
    return _total(rows.busy * rows.ranks, work_log, inside) / whole if whole > 0 else None


def capacity(work_log: WorkLog) -> int:
    """Return the maximum number of accelerators (on processors: ranks) present at the same time.

    A worker counts with the accelerators that it had when it joined.
    """
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
    """Return, for each share, the seconds from which the running score stays within ± that share of its final value.

    Empty without work in the window. The result does not prove that a longer run would keep the value.
    """
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


def _warnings(work_log: WorkLog, inside: Window, busy: float | None) -> tuple[RunWarning, ...]:
    warnings = [RunWarning(text, "warning", remedy) for text, remedy in _warning_texts(work_log, inside, busy)]
    if missing := work_log.missing_regions:
        text = f"training sampled {count(missing)} regions fewer than are counted, so its operations are overstated"
        remedy = "do not use these FLOPS: images so small have too few regions, use larger ones or another start="
        warnings.insert(0, RunWarning(text, "critical", remedy))
    return tuple(warnings)


def _warning_texts(work_log: WorkLog, inside: Window, busy: float | None) -> Iterator[tuple[str, str]]:
    assert work_log.started is not None
    run, declared = work_log.started.run, work_log.started.duration_seconds
    if work_log.started.simulated:
        yield "simulated: no work was done", "do not use it as a score: only a real run has one"
    if work_log.ended is None:
        yield (
            "the run has not ended: figures up to the journal's last line",
            "simulate it again" if work_log.started.simulated else f"check its state: {command('status', run)}",
        )
    elif work_log.ended.reason != ("trials" if "benchmark" in work_log.started.config else "duration"):
        yield (
            f"ended before its declared {declared:.0f} s ({work_log.ended.reason})",
            "compare it with no run that lasted its declared time, or run it again",
        )
    if inside.seconds <= 0:
        yield (
            f"no valid window: the warm-up of {work_log.started.warmup_seconds:.0f} s was not over",
            "run it for longer (schedule.duration_seconds), or with a shorter schedule.warmup_seconds",
        )
    if work_log.lost_workers:
        yield (
            f"workers lost: {work_log.lost_workers} of {len(work_log.presences)}",
            f"see {command('status', run)} for the last reason, and logs/ in the run's folder for the output of the ranks",
        )
    if (unlike := _unlike(work_log)) is not None:
        yield (
            unlike,
            "leave out the nodes with fewer accelerators, or set accelerators_per_worker to a number that all nodes have",
        )
    yield from _of_helpers(work_log)
    if work_log.hosts_without_worker:
        host, reason = next(iter(work_log.hosts_without_worker.items()))
        hosts = len(work_log.hosts_without_worker)
        yield (
            f"starts of workers that failed: {work_log.failed_starts}; hosts without one for a time: {hosts}, "
            f"as {host}: {reason}",
            "fix the named cause, and check these hosts: python -m aiperf preflight",
        )
    if work_log.lost_attempts:
        yield (
            f"attempts at trials lost: {work_log.lost_attempts}",
            "find the reasons in the report's table of trials; repeated work counts as wasted, in no score",
        )
    if work_log.failed:
        yield (
            f"trials failed: {work_log.failed}",
            "find the reason in the report's table of trials, and the output of the ranks in logs/ of the run's folder",
        )
    if work_log.unwritten:
        first = work_log.unwritten[0]
        yield (
            f"checkpoints that could not be written: {len(work_log.unwritten)}; first of trial {first.trial} after epoch "
            f"{first.epoch}: {first.reason}",
            "free space in the run's folder, or fix its file system: without checkpoints a loss costs more epochs",
        )
    if work_log.skipped:
        name, why = next(iter(work_log.skipped.items()))
        yield (
            f"corrupt {noun(work_log.started.dataset).many} left out: {len(work_log.skipped)}; first {name!r}: {why}",
            "repair or remove them: python -m aiperf prepare lists all",
        )
    if work_log.ended is not None and not work_log.start_finished:
        yield (
            "no trial of the starting network finished",
            "run it for longer (schedule.duration_seconds), or with fewer schedule.epochs",
        )
    yield from _of_interruptions(work_log)
    if busy is not None and busy < 0.95:
        yield (
            f"{share(1 - busy, 0)} of accelerator time idle",
            "see in the report where the time went, line by line",
        )


def _of_helpers(work_log: WorkLog) -> Iterator[tuple[str, str]]:
    for helper, effect in (("recorder", "samples are missing"), ("generator", "its requests were repeated")):
        of = sorted({worker for what, worker in work_log.lost_helpers if what == helper})
        if of:
            times = sum(what == helper for what, _ in work_log.lost_helpers)
            named = ", ".join(map(str, of[:8])) + (", …" if len(of) > 8 else "")
            yield f"{helper}s that died and were replaced: {times}, of worker {named}; {effect}", _KERNELS_LOG
    if work_log.unanswered:
        yield (
            f"requests for proposals without an answer: {work_log.unanswered} (the generator died, or was silent)",
            _KERNELS_LOG,
        )


def _of_interruptions(work_log: WorkLog) -> Iterator[tuple[str, str]]:
    if work_log.down_seconds:
        yield (
            f"the driver was down for {work_log.down_seconds:.0f} s, and this time counts in the score",
            "run it again, or compare it only with runs that were interrupted too",
        )
    for step in work_log.clock_steps:
        yield (
            f"the driver's wall clock stepped {'back' if step < 0 else 'forward'} by {abs(step):.1f} s",
            "set that host's clock before a run, and let chronyd or ntpd only slew it during the run",
        )
    for at, lines in work_log.rollbacks:
        yield (
            f"rolled back at {at:.0f} s: {lines} lines of the journal were removed and are in no figure",
            "do not compare it with a run without a rollback; a file next to the journal has the removed lines",
        )


_KERNELS_LOG = "find the cause in the kernel's log of that worker's host (dmesg: the OOM killer)"


def _unlike(work_log: WorkLog) -> str | None:
    assert work_log.started is not None
    planned = work_log.started.shape
    others = [] if planned is None else [one for one in work_log.presences if one.ranks != planned.ranks]
    if planned is None or not others:
        return None
    ranks = ", ".join(map(str, sorted({one.ranks for one in others})))
    return f"the plan was made for workers of {planned.ranks} ranks; {len(others)} of {len(work_log.presences)} had {ranks}"
