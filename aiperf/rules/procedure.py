"""Rules of one trial: epochs, early stop and reported accuracy, as pure functions (docs/benchmark.md, "Procedure")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from math import fsum
from operator import mul

from aiperf.rules.limits import ScheduleConf


def epoch_limit(schedule: ScheduleConf, round_: int) -> int:
    return schedule.epochs[min(round_, len(schedule.epochs)) - 1]


def patience(schedule: ScheduleConf, round_: int) -> int:
    """Return the number of successive epochs without improvement that end a trial. Default: min(6 + 2·(round − 1), 20)."""
    return min(schedule.patience + schedule.patience_step * (round_ - 1), schedule.largest_patience)


def judged_loss(validation: float | None, training: float) -> float:
    """Return the loss that decides on divergence and early stop: the validation loss, or for None the training loss."""
    return training if validation is None else validation


def has_stopped_improving(losses: Sequence[float], epochs: int, improvement: float) -> bool:
    """Return True if none of the last `epochs` losses is an improvement.

    An improvement is a loss more than `improvement` below that of the previous improvement. The first loss is one. `losses`:
    loss of each epoch (`judged_loss`), in order.

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
    """Return 'epochs', 'early stop' or 'followed' (after exactly `epochs`) if a trial ends now. None if it continues."""
    if epochs is not None:
        return "followed" if len(losses) >= epochs else None
    if len(losses) >= epoch_limit(schedule, round_):
        return "epochs"
    if has_stopped_improving(losses, patience(schedule, round_), schedule.improvement):
        return "early stop"
    return None


def nears_its_end(schedule: ScheduleConf, round_: int, losses: Sequence[float]) -> bool:
    """Return True if a trial may end after the next epoch. The worker's next proposal is then requested."""
    epochs, still = len(losses) + 1, patience(schedule, round_)
    if epochs >= epoch_limit(schedule, round_):
        return True
    # The next epoch can add at most one to the epochs without improvement. Few epochs cannot reach the patience.
    return epochs >= still and has_stopped_improving(losses, still - 1, schedule.improvement)


def ends_interval(since: float, left: float, every: float) -> bool:
    """Return True if a worker should report its work now, `since` seconds after its last report.

    `left`: seconds until the end of the epoch. `every`: wanted seconds between reports. The report waits for the end of the
    epoch if less than half of `every` is left. Two reports are therefore at most about 1.5 · every apart.

    >>> [ends_interval(10.0, left, every=10.0) for left in (20.0, 5.0, 4.9)], ends_interval(9.9, 20.0, every=10.0)
    ([True, True, False], False)
    """
    return since >= every and left >= every / 2


def reported_accuracy(schedule: ScheduleConf, accuracies: Sequence[float]) -> float:
    """Accuracy for the search at round 1's last epoch, by a fitted curve from 5 epochs on: later epochs have another scale."""
    seen = accuracies[: schedule.epochs[0]]
    fitted = predicted_accuracy(seen, schedule.epochs[0])
    return max(seen) if fitted is None else min(1.0, max(0.0, fitted))


def predicted_accuracy(accuracies: Sequence[float], epoch: int) -> float | None:
    """Return the accuracy expected at an epoch by a least-squares fit of c − a·x^(−b), c ≤ 1, a ≥ 0. None below 5 epochs.

    `accuracies`: measured accuracy of epochs 1, 2, …, in 0..1. `epoch`: number of the epoch, from 1. For each b of a
    geometric grid the best (a, c) is a linear regression. The grid is refined twice around its best value. Exact sums in a
    fixed order give the same number on every machine and Python (`sum` compensates for rounding from 3.12 on). The result may
    be below 0.

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
    """Accuracies y of epochs 1, 2, …, and their sums for the fits."""

    epochs: range
    mean: float
    deviations: list[float]
    squares: float
    errors: float
    """Sum of squares of 1 − y."""

    @classmethod
    def of(cls, accuracies: Sequence[float]) -> _Curve:
        mean = fsum(accuracies) / len(accuracies)
        deviations = [accuracy - mean for accuracy in accuracies]
        squares = fsum(map(mul, deviations, deviations))
        errors = fsum([(1.0 - accuracy) ** 2 for accuracy in accuracies])
        return cls(range(1, len(accuracies) + 1), mean, deviations, squares, errors)


def _fit(curve: _Curve, exponent: float) -> tuple[float, float, float]:
    """Return squared error, a and c of the best c − a·x^(−b) at a given b, from sums: a run has thousands of curves."""
    basis = list(map(pow, curve.epochs, repeat(-exponent)))
    total, squares = fsum(basis), fsum(map(mul, basis, basis))
    together = fsum(map(mul, basis, curve.deviations))
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
