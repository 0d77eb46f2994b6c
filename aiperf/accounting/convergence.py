"""Whether a run's score has come to rest: a sequential stop rule on its valid window so far, for `schedule.stop=converged`.

The law: docs/benchmark.md, "A run that ends when its score has come to rest". It asks for three things at once, so that neither
a short quiet stretch nor a score that rises evenly passes for rest: a least length of the window; a 95 % interval (of batch
means or of workers, as `confidence` has it) whose half width is at most the precision; and two halves of the window whose
scores differ by at most the precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aiperf.accounting.confidence import Work, evenness_of
from aiperf.accounting.presence import Presence
from aiperf.accounting.windows import Window, share_inside
from aiperf.accounting.work_log import WorkLog

LOOKS = 10
"""So many looks in each least length of the window: the rule is asked at moments that stand in the configuration, not whenever
a driver comes by, so that a resumed run and a reader of its journal ask the same questions."""


@dataclass(frozen=True, slots=True)
class StopRule:
    """As it is configured."""

    warmup_seconds: float
    least_seconds: float
    """Of the valid window, above 0."""
    precision: float
    """A share of the score."""

    def last_look(self, moment: float) -> float | None:
        """The last moment at or before this one at which the rule is asked, seconds since the run began; None: too early.

        >>> rule = StopRule(warmup_seconds=100.0, least_seconds=50.0, precision=0.01)
        >>> rule.last_look(149.0), rule.last_look(150.0), rule.last_look(164.0)
        (None, 150.0, 160.0)
        """
        first, every = self.warmup_seconds + self.least_seconds, self.least_seconds / LOOKS
        return None if moment < first else first + math.floor((moment - first) / every) * every


@dataclass(frozen=True, slots=True)
class Rest:
    """What the rule saw at a look. Shares are of the score."""

    window: Window
    score: float
    """FLOPS."""
    half_width: float | None
    """Of its 95 % interval; None: there is too little of a sample."""
    drift: float
    """Score of the window's second half − that of its first half."""
    precision: float

    @property
    def is_reached(self) -> bool:
        """Whether the score has come to rest."""
        return self.half_width is not None and max(self.half_width, abs(self.drift)) <= self.precision


def rest_at(work_log: WorkLog, rule: StopRule, look: float) -> Rest:
    """What the rule sees of a run's window up to a look, by the lines that were taken in."""
    rows = work_log.intervals
    work = Work(rows.worker, rows.trial, rows.start, rows.end, rows.flops)
    return rest_of(work, work_log.presences, rule, look, work_log.down_seconds)


def rest_of(work: Work, presences: Sequence[Presence], rule: StopRule, look: float, down_seconds: float) -> Rest:
    """The same of work that is given."""
    inside = Window(rule.warmup_seconds, look)
    middle = (inside.start + inside.end) / 2
    score, first, second = (
        float(np.sum(work.flops * share_inside(work.start, work.end, part))) / part.seconds
        for part in (inside, Window(inside.start, middle), Window(middle, inside.end))
    )
    if not score > 0:
        return Rest(inside, 0.0, None, 0.0, rule.precision)
    interval = evenness_of(work, presences, inside, down_seconds).interval
    half_width = None if interval is None else (interval[1] - interval[0]) / 2 / score
    return Rest(inside, score, half_width, (second - first) / score, rule.precision)
