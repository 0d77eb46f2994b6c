"""Efficiency of points with more accelerators, and the points that each line lost. Definitions: docs/scaling.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from aiperf.errors import CannotCompare
from aiperf.scaling.point import LINES, Point
from aiperf.statistics.interleaved import FEWEST_PAIRS, interval_of_median

ABOVE_LINEAR = 1.05
"""Efficiency from which a warning is printed."""
EQUAL = ("network", "data", "precision", "threads", "is_simulated")
"""Fields that all points must share."""


@dataclass(frozen=True, slots=True)
class ScalingPair:
    """Runs with more accelerators against those with the fewest."""

    base: int
    """Accelerators of the runs with the fewest."""
    accelerators: int
    efficiency: float
    """Accelerator-seconds per image with the fewest accelerators ÷ those with these, of all runs together."""
    efficiency_with_evaluation: float
    """The same with all evaluation in the time."""
    interval: tuple[float, float] | None
    """95 % interval of the median efficiency of the rounds. None for fewer than 6 rounds."""
    rounds: int
    """Runs of both sizes in pairs, in order of their starts."""
    speed_up: float
    """Ratio of images per second."""
    karp_flatt: float
    """Serial fraction (1/speed-up − 1/p)/(1 − 1/p), with p the ratio of the accelerators."""
    points_lost: dict[str, float]
    """Percentage points by line. Their sum is 100·(1 − efficiency)."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Scaling of several runs."""

    form: str
    """'strong': equal global batch. 'weak': equal batch per accelerator."""
    evaluation: Fraction
    """Share of the evaluation that counts: 0 out, 1 in, 1/N every N epochs."""
    points: tuple[Point, ...]
    """Fewest accelerators first, then in order of their starts."""
    pairs: tuple[ScalingPair, ...]

    @property
    def is_amdahl_refuted(self) -> bool:
        """True if the serial fraction falls with the accelerators."""
        serial = [each.karp_flatt for each in self.pairs]
        return any(later < earlier for earlier, later in pairwise(serial))


def scaling(points: Sequence[Point], evaluation: Fraction = Fraction(0)) -> Scaling:
    """Return the scaling of runs that differ in their accelerators.

    Raises:
        CannotCompare: one size alone, or points that differ in anything else. The message lists every difference.
    """
    sizes = sorted({each.accelerators for each in points})
    if len(sizes) < 2:
        raise CannotCompare(
            f"scaling needs runs with at least two numbers of accelerators, but found {sizes}: add runs, for example of "
            "`sweep --over trainer.ranks=1,2`"
        )
    ordered = tuple(sorted(points, key=lambda each: (each.accelerators, each.started_unix)))
    form = _form(ordered)
    groups = [[each for each in ordered if each.accelerators == size] for size in sizes]
    pairs = tuple(_pair(groups[0], group, evaluation) for group in groups[1:])
    return Scaling(form, evaluation, ordered, pairs)


def karp_flatt(speed_up: float, accelerators: float) -> float:
    """Return the serial fraction (1/speed-up − 1/p)/(1 − 1/p) (Karp and Flatt 1990)."""
    return (1 / speed_up - 1 / accelerators) / (1 - 1 / accelerators)


def _form(points: Sequence[Point]) -> str:
    faults = []
    for name in EQUAL:
        values = {str(getattr(each, name)): each.run for each in points}
        if len(values) > 1:
            faults.append(f"{name}: " + ", ".join(f"{value} in {run!r}" for value, run in values.items()))
    is_strong = len({each.global_batch for each in points}) == 1
    is_weak = len({each.batch for each in points}) == 1
    if not is_strong and not is_weak:
        batches = sorted({(each.accelerators, each.global_batch) for each in points})
        faults.append("global batch: " + ", ".join(f"{batch} on {size} accelerators" for size, batch in batches))
    if faults:
        raise CannotCompare(
            "points have equal network, data, precision and threads, and a global batch that is equal or proportional to "
            f"the accelerators, but found {'; '.join(faults)}. Leave the other runs out"
        )
    return "strong" if is_strong else "weak"


def _pair(base: Sequence[Point], group: Sequence[Point], evaluation: Fraction) -> ScalingPair:
    one, many = _mean(base, evaluation), _mean(group, evaluation)
    all_one, all_many = _mean(base, Fraction(1)), _mean(group, Fraction(1))
    time = sum(many.values())
    efficiency = sum(one.values()) / time
    rounds = [
        float(_time(first, evaluation) / _time(other, evaluation)) for first, other in zip(base, group, strict=False)
    ]
    ratio = Fraction(group[0].accelerators, base[0].accelerators)
    return ScalingPair(
        base=base[0].accelerators,
        accelerators=group[0].accelerators,
        efficiency=float(efficiency),
        efficiency_with_evaluation=float(sum(all_one.values()) / sum(all_many.values())),
        interval=interval_of_median(rounds) if len(rounds) >= FEWEST_PAIRS else None,
        rounds=len(rounds),
        speed_up=float(efficiency * ratio),
        karp_flatt=karp_flatt(float(efficiency * ratio), float(ratio)),
        points_lost={line: float(100 * (many[line] - one[line]) / time) for line in LINES},
    )


def _mean(points: Sequence[Point], evaluation: Fraction) -> dict[str, Fraction]:
    """Return accelerator-seconds per image by line, of all runs together."""
    images = sum(each.images for each in points)
    return {
        line: sum((each.images * each.seconds_per_image(evaluation)[line] for each in points), Fraction(0)) / images
        for line in LINES
    }


def _time(point: Point, evaluation: Fraction) -> Fraction:
    return sum(point.seconds_per_image(evaluation).values(), Fraction(0))
