"""Loss waterfall: from the peak of the planned accelerators in the valid window down to the score, part by part.

Every second of every planned accelerator has the same price, its dense peak. Each part is therefore its time × that price,
the order of the parts does not matter, and FLOPS and accelerator seconds are equivalent. All sums are exact fractions that
are rounded once for display. Definition: docs/report.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from aiperf.accounting.intervals import Real
from aiperf.accounting.score import capacity
from aiperf.accounting.time_breakdown import TimeBreakdown
from aiperf.accounting.windows import Window, share_inside
from aiperf.accounting.work_log import WorkLog


@dataclass(frozen=True, slots=True)
class AcceleratorPeak:
    """Peak rate of an accelerator, if known."""

    flops: float | None
    """FLOPS of one accelerator. None if unknown or not equal for all."""
    source: str | None
    """Source of the figure."""
    clock_share: float | None = None
    """Mean clock of the working accelerators ÷ the clock that `flops` is specified for. None if not measured or unspecified.
    """


@dataclass(frozen=True, slots=True)
class Loss:
    """One bar of the waterfall. Its amounts are negative only if `why_negative` has the reason."""

    name: str
    meaning: str
    before_flops_per_second: float
    """Start of the bar: the end of the previous one."""
    after_flops_per_second: float
    """End of the bar. For the last bar this is the score to the last digit."""
    flops_per_second: float
    """Loss of this part."""
    accelerator_seconds: float
    """Loss in accelerator seconds at the top's rate."""
    share: float
    """Share of the top."""
    why_negative: str | None = None
    joules: float | None = None
    """Energy spent in this part. None if not measured, or not separable from other parts (see `Waterfall.energy`)."""


@dataclass(frozen=True, slots=True)
class EnergyPart:
    """Energy spent during one activity of the accelerators, at the resolution of samples at 1 Hz."""

    activity: str
    losses: tuple[str, ...]
    """Parts of the waterfall in this activity."""
    joules: float
    device_seconds: float
    """Seconds covered by the measurement."""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Waterfall from the top to the score. The bars are contiguous and sum to the difference."""

    top_flops_per_second: float
    """Planned accelerators × peak rate of one."""
    top_source: str
    """Source of the peak rate. If none is known: the rate of this run's own training steps."""
    is_peak: bool
    """True if the top is a dense peak or a measured matrix product. Otherwise losses of clocks and kernels are not included.
    """
    accelerators: int
    """Planned number, at least the maximum of simultaneously present ones."""
    accelerator_seconds: float
    """Seconds of the planned accelerators in the window."""
    flops_per_accelerator: float
    """Price of one accelerator second."""
    losses: tuple[Loss, ...]
    score_flops_per_second: float
    score_accelerator_seconds: float
    """The score in accelerator seconds at the top's rate."""
    joules: float | None = None
    """Energy measured in the window, of the devices in `energy_of`. None if not measured for every device."""
    energy_of: str | None = None
    energy: tuple[EnergyPart, ...] = ()
    """Energy by activity. The sum is `joules`."""

    @property
    def largest(self) -> tuple[Loss, ...]:
        """Return the parts with a positive loss, the largest first."""
        return tuple(
            sorted((loss for loss in self.losses if loss.flops_per_second > 0), key=lambda loss: -loss.flops_per_second)
        )


OWN_RATE = "rate of this run's training steps; no one peak is known, so what clocks and kernels lose is in no part"

MEANINGS = {
    "clocks": "training steps at a lower clock than the peak is printed for",
    "kernels": "training steps at that clock: what kernels, memory and launches leave of it",
    "clocks and kernels": "training steps below the peak; without telemetry of the clocks the two cannot be told apart",
    "input": "waiting for images",
    "communication": "exchange of gradients that the backward pass did not hide",
    "evaluation": "validation steps, less what their counted operations are worth",
    "checkpoints": "training stood still for a checkpoint",
    "search": "a worker was there and had no trial: it waited for a proposal or an order",
    "start-up": "from the order to a network that stands with its weights",
    "compiling": "compiling, and measuring whether it pays",
    "lost attempts": "between an attempt's last word and its loss",
    "done again": "time of work that a loss or a smaller batch made worthless",
    "absent": "accelerators that were there at another time: not yet, gone, or their driver was down",
    "never there": "planned accelerators beyond the most that were there at once",
    "end of the run": "between a running attempt's last word and the end",
    "unexplained": "what no clock covers: the whole less all other parts",
}
"""All parts in the order of their bars."""

WHY_NEGATIVE = {
    "clocks": "the clock ran above the one that the peak is printed for",
    "kernels": "training steps did more than the peak at that clock: the peak, the clock or the count is not this machine's",
    "clocks and kernels": "training steps did more than the peak: it is not this machine's, or its measuring was disturbed",
    "evaluation": "validation steps did more operations a second than the top has",
    "unexplained": "parts overlap: a word came late, or ranks that trained were not those of the worker",
}


def waterfall(
    work_log: WorkLog,
    inside: Window,
    spent: TimeBreakdown,
    planned: int,
    flops_per_second: float | None,
    top: AcceleratorPeak,
) -> Waterfall | None:
    """Return the waterfall of a run's valid window. None without a window, an accelerator, or a peak or timed training step.

    `spent`: its time breakdown.
    `planned`: accelerators, at least the maximum of simultaneously present ones.
    `flops_per_second`: its score.
    """
    if flops_per_second is None or inside.seconds <= 0 or planned <= 0:
        return None
    length, score = Fraction(inside.seconds), Fraction(flops_per_second)
    steps = _steps(work_log, inside)
    evaluated = Fraction(steps.validation_flops)
    trained = score * length - evaluated
    price = Fraction(top.flops) if top.flops else None
    if price is None and steps.training > 0 and trained > 0:
        price = trained / Fraction(steps.training)
    if price is None:
        return None
    seconds = _seconds(work_log, inside, spent, planned, steps)
    amounts = {name: price * part for name, part in seconds.items()}
    training = price * Fraction(steps.training)
    if top.flops is None:
        pass  # the price is the rate of the training steps, so they lose nothing
    elif top.clock_share is None:
        amounts["clocks and kernels"] = training - trained
    else:
        amounts["clocks"] = training * (1 - Fraction(top.clock_share))
        amounts["kernels"] = training * Fraction(top.clock_share) - trained
    amounts["evaluation"] -= evaluated
    return _drawn(
        {name: amount / length for name, amount in amounts.items()}, price, planned, length, flops_per_second, top
    )


@dataclass(frozen=True, slots=True)
class _Steps:
    """Accelerator seconds and operations of the counted intervals in the window."""

    training: float
    communication: float
    validation: float
    input: float
    checkpoint: float
    validation_flops: float
    done_again: float
    """All seconds of wasted intervals."""
    length: float
    """All seconds of counted intervals."""


def _steps(work_log: WorkLog, inside: Window) -> _Steps:
    rows = work_log.intervals
    start, end, flops = rows.start, rows.end, rows.flops
    inside_share = share_inside(start, end, inside)
    weight = inside_share * rows.ranks.astype(np.float64)
    again = rows.wasted > 0
    kept = np.where(again, 0.0, weight)
    busy, communication, validation = rows.busy, rows.communication, rows.validation

    def total(amount: Real, over: Real) -> float:
        return math.fsum((amount * over).tolist())

    return _Steps(
        training=total(np.maximum(0.0, busy - communication - validation), kept),
        communication=total(communication, kept),
        validation=total(validation, kept),
        input=total(rows.input, kept),
        checkpoint=total(rows.checkpoint, kept),
        validation_flops=total(np.maximum(0.0, flops - _training_flops(work_log)), np.where(again, 0.0, inside_share)),
        done_again=total(end - start, np.where(again, weight, 0.0)),
        length=total(end - start, kept),
    )


def _training_flops(work_log: WorkLog) -> Real:
    """Return the training operations of each interval: training images × operations of one image."""
    rows = work_log.intervals
    of_image = np.zeros(1 + max(work_log.trials, default=0))
    for number, record in work_log.trials.items():
        of_image[number] = record.operations.training
    return np.asarray(rows.training_images.astype(np.float64) * of_image[rows.trial], dtype=np.float64)


def _seconds(
    work_log: WorkLog, inside: Window, spent: TimeBreakdown, planned: int, steps: _Steps
) -> dict[str, Fraction]:
    """Return the accelerator seconds of each part except the training steps.

    With them the sum is the planned accelerators' time.
    """
    lines = {line.name: line.seconds for line in spent.lines}
    ending = math.fsum(
        span.ranks * max(0.0, min(span.end, inside.end) - max(span.start, inside.start))
        for presence in work_log.presences
        if presence.left is None
        for span in work_log.open_idle_spans(presence, inside.end)
        if span.kind == "lost"
    )
    length, most = Fraction(inside.seconds), capacity(work_log)
    there = sum((one.ranks * _overlap(one.joined, one.left, inside) for one in work_log.presences), Fraction(0))
    seconds = {
        "input": Fraction(steps.input),
        "communication": Fraction(steps.communication),
        "evaluation": Fraction(steps.validation),
        "checkpoints": Fraction(steps.checkpoint),
        "search": Fraction(lines["gap"]),
        "start-up": Fraction(lines["start"]),
        "compiling": Fraction(lines["compile"]),
        "lost attempts": max(Fraction(0), Fraction(lines["lost"]) - Fraction(ending)),
        "done again": Fraction(steps.done_again),
        "absent": most * length - there,
        "never there": (planned - most) * length,
        "end of the run": Fraction(ending),
    }
    seconds["unexplained"] = planned * length - sum(seconds.values()) - Fraction(steps.training)
    return seconds


def _overlap(start: float, end: float | None, inside: Window) -> Fraction:
    """Return the overlap without rounding. The times of accelerators that replace each other then sum to the window exactly."""
    until = inside.end if end is None else min(end, inside.end)
    since = max(start, inside.start)
    return Fraction(until) - Fraction(since) if until > since else Fraction(0)


def _drawn(
    rates: dict[str, Fraction], price: Fraction, planned: int, length: Fraction, score: float, top: AcceleratorPeak
) -> Waterfall:
    """Return the waterfall with each figure rounded once. The edges of the bars are exact sums."""
    whole = price * planned
    assert whole - sum(rates.values()) == Fraction(score), "the parts add up"
    losses: list[Loss] = []
    level = whole
    for name in MEANINGS:
        if name not in rates:
            continue
        rate, before = rates[name], level
        level -= rate
        losses.append(
            Loss(
                name,
                MEANINGS[name],
                float(before),
                float(level),
                float(rate),
                float(rate * length / price),
                float(rate / whole),
                WHY_NEGATIVE[name] if rate < 0 else None,
            )
        )
    return Waterfall(
        top_flops_per_second=float(whole),
        top_source=OWN_RATE if top.flops is None else f"{top.source}",
        is_peak=top.flops is not None,
        accelerators=planned,
        accelerator_seconds=float(planned * length),
        flops_per_accelerator=float(price),
        losses=tuple(losses),
        score_flops_per_second=score,
        score_accelerator_seconds=float(Fraction(score) * length / price),
    )
