"""The rules of one trial and one round: how long to train, when to stop, and what the search is told.

Sources: docs/benchmark.md, "Procedure". All functions of values to values; the trainer and the driver carry them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import mul

from aiperf.rules.limits import ScheduleConf


def epoch_limit(schedule: ScheduleConf, round_: int) -> int:
    """Most epochs of a trial of this round (from 1)."""
    return schedule.epochs[min(round_, len(schedule.epochs)) - 1]


def patience(schedule: ScheduleConf, round_: int) -> int:
    """Epochs without improvement that end a trial: min(6 + 2·(round − 1), 20) as configured by default."""
    return min(schedule.patience + schedule.patience_step * (round_ - 1), schedule.largest_patience)


def has_stopped_improving(losses: Sequence[float], epochs: int, improvement: float) -> bool:
    """Whether the last `epochs` validation losses brought none that lies `improvement` under the best before it.

    >>> has_stopped_improving([1.0, 0.5, 0.4999, 0.5], epochs=2, improvement=0.001)
    True
    """
    best, since = float("inf"), 0
    for loss in losses:
        if loss < best - improvement:
            best, since = loss, 0
        else:
            since += 1
    return since >= epochs


def end_of_trial(schedule: ScheduleConf, round_: int, losses: Sequence[float], epochs: int | None = None) -> str | None:
    """Why a trial of this round with these epochs' validation losses is over: 'epochs' or 'early stop'; None: it is not.

    `epochs`: of a trial that follows one of an earlier run, which has exactly so many whatever its losses: 'followed'.
    """
    if epochs is not None:
        return "followed" if len(losses) >= epochs else None
    if len(losses) >= epoch_limit(schedule, round_):
        return "epochs"
    if has_stopped_improving(losses, patience(schedule, round_), schedule.improvement):
        return "early stop"
    return None


def nears_its_end(schedule: ScheduleConf, round_: int, losses: Sequence[float]) -> bool:
    """Whether a trial of this round may be over after the epoch that follows these: it would be, if that improved nothing.

    That is when the proposal for its worker's next round is asked for.
    """
    epochs, still = len(losses) + 1, patience(schedule, round_)
    if epochs >= epoch_limit(schedule, round_):
        return True
    # An epoch that improves nothing is one more of those that did not; few epochs cannot be so many.
    return epochs >= still and has_stopped_improving(losses, still - 1, schedule.improvement)


def ends_interval(since: float, left: float, every: float) -> bool:
    """Whether an interval of work ends now, `since` seconds after it began, with `left` seconds of its epoch to come.

    It is to last about `every` seconds, and ends with its epoch in any case: what would leave less than half an interval over
    goes on to the epoch's end, so that no epoch is followed by a stub. So an interval lasts at most 1.5 · every.

    >>> [ends_interval(10.0, left, every=10.0) for left in (20.0, 5.0, 4.9)], ends_interval(9.9, 20.0, every=10.0)
    ([True, True, False], False)
    """
    return since >= every and left >= every / 2


def told_accuracy(schedule: ScheduleConf, accuracies: Sequence[float]) -> float:
    """What the search is told of a finished trial, of whatever round: its curve's value at the last epoch of round 1.

    `accuracies`: validation top-1 of each epoch, 0..1, at least one. Every trial is looked at as one of round 1 would be: the
    law of `predicted_accuracy` is fitted to its first epochs, as many as round 1 has, and read at the last of these, whether
    the trial ended before it or went on. A prediction from 15 epochs and a measurement after 60 are not of one scale: held
    against each other, the round decides and not the network. Under 5 epochs there is no fit, and the best of them is told.
    """
    seen = accuracies[: schedule.epochs[0]]
    fitted = predicted_accuracy(seen, schedule.epochs[0])
    return max(seen) if fitted is None else min(1.0, max(0.0, fitted))


def predicted_accuracy(accuracies: Sequence[float], epoch: int) -> float | None:
    """The accuracy to be expected at an epoch: c − a·x^(−b), c ≤ 1, a ≥ 0, by least squares; None under 5 epochs.

    For each b of a geometric grid the best (a, c) is a linear regression; the grid is refined twice around its best. Standard
    arithmetic in a fixed order, so that the same curve gives the same number wherever it is computed.

    >>> round(predicted_accuracy([0.9 - 0.5 * x**-0.7 for x in range(1, 9)], 60), 4)
    0.8715
    """
    if len(accuracies) < 5:
        return None
    low, high = 0.02, 5.0
    curve = _Curve.of(accuracies)
    exponent = low
    for _ in range(3):
        ratio = (high / low) ** (1 / 40)
        exponents = [low * ratio**i for i in range(41)]
        exponent = min(exponents, key=lambda b: _fit(curve, b)[0])
        low, high = exponent / ratio, exponent * ratio
    _, gain, ceiling = _fit(curve, exponent)
    return float(ceiling - gain * epoch**-exponent)


@dataclass(frozen=True, slots=True)
class _Curve:
    """Accuracies y of epochs 1, 2, …, and the sums of them that every fit needs."""

    epochs: range
    mean: float
    deviations: list[float]
    """y − mean."""
    squares: float
    """Of the deviations."""
    errors: float
    """Squares of 1 − y."""

    @classmethod
    def of(cls, accuracies: Sequence[float]) -> _Curve:
        mean = sum(accuracies) / len(accuracies)
        deviations = [accuracy - mean for accuracy in accuracies]
        squares = sum(map(mul, deviations, deviations))
        errors = sum([(1.0 - accuracy) ** 2 for accuracy in accuracies])
        return cls(range(1, len(accuracies) + 1), mean, deviations, squares, errors)


def _fit(curve: _Curve, exponent: float) -> tuple[float, float, float]:
    """Squared error, a and c of the best c − a·x^(−b) at a given b, with c ≤ 1 and a ≥ 0.

    By sums over u = x^(−b), without walking over the curve once more for the error: a run has thousands of curves.
    """
    basis = list(map(pow, curve.epochs, repeat(-exponent)))
    total, squares = sum(basis), sum(map(mul, basis, basis))
    together = sum(map(mul, basis, curve.deviations))
    mean = total / len(basis)
    gain = -together / (squares - total * mean)
    ceiling = curve.mean + gain * mean
    if gain < 0.0:
        return curve.squares, 0.0, curve.mean
    if ceiling > 1.0:
        missing = total * (1.0 - curve.mean) - together
        gain = max(0.0, missing / squares)
        return curve.errors - gain * missing, gain, 1.0
    return curve.squares + gain * together, gain, ceiling
