"""The loss waterfall: from what the planned accelerators could have done in the valid window down to the score, part by part.

Every second of every planned accelerator is worth the same, its dense peak; so each part is the time that went elsewhere times
that price, no order of the parts matters, and FLOPS and accelerator seconds are one picture. All sums are exact fractions,
rounded once where they are shown. The law: docs/losses.md.
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
class Top:
    """What an accelerator can do at most, as far as it is known."""

    flops: float | None
    """FLOPS of one accelerator. None: not known, or not one for all."""
    source: str | None
    """Whose figure that is."""
    clock_share: float | None = None
    """Mean clock of the accelerators at work ÷ the clock that `flops` is printed for. None: not measured, or no such clock."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One bar of the waterfall. Its amounts are below 0 only where `why_negative` says why."""

    name: str
    meaning: str
    before_flops_per_second: float
    """Where the bar begins: the end of the one before it."""
    after_flops_per_second: float
    """Where it ends; of the last bar this is the score, to the last digit."""
    flops_per_second: float
    """Lost in this part."""
    accelerator_seconds: float
    """The same at the top's rate: accelerator seconds that went so."""
    share: float
    """Of the top."""
    why_negative: str | None = None
    joules: float | None = None
    """Spent meanwhile. None: not measured, or not told apart from other parts; `Waterfall.energy` has it with these."""


@dataclass(frozen=True, slots=True)
class EnergyPart:
    """Energy that was spent while the accelerators were at one thing: as far as samples each second can tell."""

    activity: str
    losses: tuple[str, ...]
    """The parts that lie in it."""
    joules: float
    device_seconds: float
    """That it was measured in."""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """From the top to the score. The bars tile the way from one to the other, and their amounts sum to it."""

    top_flops_per_second: float
    """Planned accelerators × what one can do."""
    top_source: str
    """What that is; where no peak is known, the rate of this run's own training steps."""
    is_peak: bool
    """Whether the top is a dense peak or a measured matrix product. Else what clocks and kernels lose is in no part."""
    accelerators: int
    """Planned; never fewer than were there at once."""
    accelerator_seconds: float
    """Of those in the window."""
    flops_per_accelerator: float
    """What a second of one is worth."""
    losses: tuple[Loss, ...]
    score_flops_per_second: float
    score_accelerator_seconds: float
    """The score in seconds at the top's rate."""
    joules: float | None = None
    """Measured in the window, of what `energy_of` names. None: not measured, or not of every device."""
    energy_of: str | None = None
    energy: tuple[EnergyPart, ...] = ()
    """By what the accelerators were at; together they are `joules`."""

    @property
    def largest(self) -> tuple[Loss, ...]:
        """Those that lost something, the largest first."""
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
"""Every part there is, in the order of its bars."""

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
    top: Top,
) -> Waterfall | None:
    """Of a run's valid window. `spent`: its time breakdown; `planned`: accelerators, at least those there at once;
    `flops_per_second`: its score.

    None where there is nothing to begin at: no window, no accelerator, or neither a peak nor a training step that took time.
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
        pass  # the price is made of the training steps: they lose nothing
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
    """Accelerator seconds and operations of the intervals that count, in the window."""

    training: float
    communication: float
    validation: float
    input: float
    checkpoint: float
    validation_flops: float
    done_again: float
    """All seconds of intervals that do not count any more."""
    length: float
    """All seconds of those that do."""


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
    """Of each interval: training images × the operations of one."""
    rows = work_log.intervals
    of_image = np.zeros(1 + max(work_log.trials, default=0))
    for number, record in work_log.trials.items():
        of_image[number] = record.operations.training
    return np.asarray(rows.training_images.astype(np.float64) * of_image[rows.trial], dtype=np.float64)


def _seconds(
    work_log: WorkLog, inside: Window, spent: TimeBreakdown, planned: int, steps: _Steps
) -> dict[str, Fraction]:
    """Accelerator seconds of each part but those of the training steps; all with these are the planned accelerators' time."""
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
    """Without rounding: of accelerators that come as others go the sum is exactly the window's."""
    until = inside.end if end is None else min(end, inside.end)
    since = max(start, inside.start)
    return Fraction(until) - Fraction(since) if until > since else Fraction(0)


def _drawn(
    rates: dict[str, Fraction], price: Fraction, planned: int, length: Fraction, score: float, top: Top
) -> Waterfall:
    """Rounded, each figure once. The edges of the bars are the exact sums so far."""
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
