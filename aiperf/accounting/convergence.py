"""Sequential stop rule for `schedule.stop=converged`: decide at a look whether a run's score has converged.

Definition: docs/benchmark.md, "A run that ends when its score has converged". The rule has four conditions: the window has
its minimum length, every worker has passed the short rounds, the half width of the batch means is at most the precision, and
the scores of the window's two halves differ by at most the precision. `settled` describes the convergence of a finished run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aiperf.accounting.confidence import Work, rates, trials_in_a_row
from aiperf.accounting.presence import WorkerPresence
from aiperf.accounting.score import CurvePoint
from aiperf.accounting.valid_window import Window, share_inside
from aiperf.accounting.work_log import WorkLog

LOOKS = 10
"""Looks per minimum window length. Their times follow from the configuration, so that a resumed run and a reader of its
journal use the same times."""
TRIALS_A_BATCH = 4
"""Minimum length of a batch in trials."""
FEWEST_BATCHES = 4
MOST_BATCHES = 10


@dataclass(frozen=True, slots=True)
class StopRule:
    """Configuration of the rule."""

    warmup_seconds: float
    least_seconds: float
    """Minimum length of the valid window, above 0."""
    precision: float
    """Share of the score."""

    def last_look(self, moment: float) -> float | None:
        """Return the last look at or before a moment, in seconds since the start of the run. None if there is none yet.

        >>> rule = StopRule(warmup_seconds=100.0, least_seconds=50.0, precision=0.01)
        >>> rule.last_look(149.0), rule.last_look(150.0), rule.last_look(164.0)
        (None, 150.0, 160.0)
        """
        first, every = self.warmup_seconds + self.least_seconds, self.least_seconds / LOOKS
        return None if moment < first else first + math.floor((moment - first) / every) * every


@dataclass(frozen=True, slots=True)
class ConvergenceResult:
    """Result of the rule at a look. Shares are of the score."""

    window: Window
    score: float
    """FLOPS."""
    half_width: float | None
    """95 % interval of batch means. None if there are too few consecutive trials."""
    drift: float
    """Score of the window's second half − that of its first half."""
    precision: float
    in_short_rounds: int
    """Workers that have not started a trial past round 3."""

    @property
    def is_reached(self) -> bool:
        """True if the score has converged."""
        return (
            not self.in_short_rounds
            and self.half_width is not None
            and max(self.half_width, abs(self.drift)) <= self.precision
        )


def rest_at(work_log: WorkLog, rule: StopRule, look: float) -> ConvergenceResult:
    """Apply the rule to a run's window up to a look, from the lines read so far."""
    rows = work_log.intervals
    work = Work(rows.worker, rows.trial, rows.start, rows.end, rows.flops)
    return rest_of(work, work_log.presences, rule, look, work_log.down_seconds)


def rest_of(
    work: Work, presences: Sequence[WorkerPresence], rule: StopRule, look: float, down_seconds: float
) -> ConvergenceResult:
    """Apply the rule to given work."""
    inside = Window(rule.warmup_seconds, look)
    middle = (inside.start + inside.end) / 2
    score, first, second = (
        float(np.sum(work.flops * share_inside(work.start, work.end, part))) / part.seconds
        for part in (inside, Window(inside.start, middle), Window(middle, inside.end))
    )
    present = [one for one in presences if one.joined <= look and (one.left is None or one.left > look)]
    in_short_rounds = sum(one.past_short_rounds is None or one.past_short_rounds > look for one in present)
    if not score > 0:
        return ConvergenceResult(inside, 0.0, None, 0.0, rule.precision, in_short_rounds)
    half_width = None if down_seconds > 0 else batch_means_half_width(work, inside)
    if half_width is not None:
        half_width /= score
    return ConvergenceResult(inside, score, half_width, (second - first) / score, rule.precision, in_short_rounds)


def batch_means_half_width(work: Work, inside: Window) -> float | None:
    """Return t · standard error of the batches' mean rate, from their deviations from a straight line.

    None for too few batches.

    A batch is long compared with a trial. The straight line models growth of the networks. The comparison of the two halves
    limits this growth.
    """
    from scipy.special import stdtrit

    batches = min(MOST_BATCHES, math.floor(trials_in_a_row(work, inside) / TRIALS_A_BATCH))
    if batches < FEWEST_BATCHES:
        return None
    sample = rates(work, inside, batches)
    moments = np.arange(batches)
    deviations = sample - np.polynomial.Polynomial.fit(moments, sample, 1)(moments)
    freedom = batches - 2
    error = math.sqrt(float(np.sum(deviations * deviations)) / freedom / batches)
    return float(stdtrit(freedom, 0.975)) * error


SHARES = (0.05, 0.02, 0.01)
"""Half widths of the bands, as shares of the final score."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Last entry of the running score into a band around its final value."""

    share: float
    """Half the band's width, as a share of the final score."""
    at: float
    """Time from which the score stays inside the band. The end of the curve if it never stays before."""
    part_of_window: float
    """Share of the window before `at`. Near 1: the window is too short for this precision."""


def settled(curve: Sequence[CurvePoint], inside: Window, shares: Sequence[float] = SHARES) -> tuple[Settled, ...]:
    """Return the convergence of a score's curve for each band. Empty without work in the window.

    Convergence in the past does not prove that a longer run would keep the value.
    """
    points = [(point.at, point.flops_per_second) for point in curve if point.flops_per_second is not None]
    if not points or not points[-1][1]:
        return ()
    last_at, last = points[-1]
    bands = []
    for share in shares:
        since = last_at
        for at, value in reversed(points):
            if abs(value / last - 1) > share:
                break
            since = at
        bands.append(Settled(share, since, (since - inside.start) / inside.seconds))
    return tuple(bands)
