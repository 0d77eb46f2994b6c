"""Efficiency of runs with more accelerators, and the efficiency lost in each part of the time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from aiperf.errors import CannotCompare
from aiperf.scaling.point import COMMUNICATION, Point
from aiperf.statistics.interleaved import FEWEST_PAIRS, interval_of_median

ABOVE_LINEAR = 1.05
"""Efficiency from which a warning is printed."""
EQUAL = ("network", "data", "precision", "threads", "is_simulated")
"""Fields that all points must share."""


@dataclass(frozen=True, slots=True)
class ScalingPair:
    """Comparison of the runs with one number of accelerators to the runs with the fewest."""

    base: int
    """Accelerators of the runs with the fewest."""
    accelerators: int
    """Accelerators of the compared runs."""
    efficiency: float
    """Accelerator-seconds per image with the fewest accelerators ÷ those with these, of all runs together."""
    efficiency_with_evaluation: float
    interval: tuple[float, float] | None
    """95 % interval of the median efficiency of the rounds. None for fewer than 6 rounds."""
    rounds: int
    """Number of pairs of runs of both sizes, in order of their starts."""
    speed_up: float
    """Images per second ÷ those with the fewest accelerators."""
    karp_flatt: float
    """Serial fraction (1/speed-up − 1/p)/(1 − 1/p), with p the ratio of the accelerators."""
    points_lost: dict[str, float]
    """Percentage points of efficiency lost by part of the time (arithmetic, …). Their sum is 100·(1 − efficiency)."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """Speed-up, efficiency and losses of several runs that differ in their number of accelerators."""

    form: str
    """'strong': equal global batch. 'weak': equal batch per accelerator."""
    evaluation: Fraction
    """Share of the evaluation's time that counts: 0 for none, 1 for all, 1/N for an evaluation every N epochs."""
    points: tuple[Point, ...]
    """Fewest accelerators first, then in order of their starts."""
    pairs: tuple[ScalingPair, ...]

    @property
    def is_amdahl_refuted(self) -> bool:
        """True if the serial fraction falls with the next larger number of accelerators. Amdahl's law excludes this."""
        serial = [each.karp_flatt for each in self.pairs]
        return any(later < earlier for earlier, later in pairwise(serial))


def scaling(points: Sequence[Point], evaluation: Fraction = Fraction(0)) -> Scaling:
    """Return speed-up, efficiency and losses of runs (`points`) that differ only in their number of accelerators."""
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
    """Return the serial fraction (1/speed-up − 1/p)/(1 − 1/p) of a program on p accelerators (Karp and Flatt 1990)."""
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


def mean_lines(points: Sequence[Point], evaluation: Fraction, *, is_split: bool) -> dict[str, Fraction]:
    """Return accelerator-seconds per training image for each part of the time (arithmetic, exchange, …), of all runs together.

    `evaluation`: share of the evaluation's time that counts, 0 (none) to 1 (all). `is_split`: True to return "exchange" and
    "waiting", which every run must have measured. False to return their sum as "communication".
    """
    images = sum(each.images for each in points)
    sums: dict[str, Fraction] = {}
    for point in points:
        for line, seconds in point.seconds_per_image(evaluation).items():
            name = COMMUNICATION if line in ("exchange", "waiting") and not is_split else line
            sums[name] = sums.get(name, Fraction(0)) + point.images * seconds / images
    return sums


def images_per_second(points: Sequence[Point], evaluation: Fraction) -> float:
    """Return the training images per second of equal runs together: their images ÷ their time."""
    return float(points[0].accelerators / sum(mean_lines(points, evaluation, is_split=False).values()))


def points_lost(one: Mapping[str, Fraction], many: Mapping[str, Fraction]) -> dict[str, float]:
    """Return the percentage points of efficiency that more accelerators lost in each part of the time (arithmetic, …)."""
    time = sum(many.values())
    return {line: float(100 * (many[line] - one[line]) / time) for line in many}


def ratios_of_rounds(group: Sequence[Point], base: Sequence[Point], evaluation: Fraction) -> list[float]:
    """Return the images per second of each run of `group` ÷ those of a run of `base`, in the order of their starts."""
    ordered = [sorted(points, key=lambda each: each.started_unix) for points in (group, base)]
    return [
        one.images_per_second(evaluation) / other.images_per_second(evaluation)
        for one, other in zip(*ordered, strict=False)
    ]


def _pair(base: Sequence[Point], group: Sequence[Point], evaluation: Fraction) -> ScalingPair:
    is_split = all(COMMUNICATION not in each.line_seconds for each in (*base, *group))
    one, many, all_one, all_many = (
        mean_lines(points, counted, is_split=is_split)
        for counted in (evaluation, Fraction(1))
        for points in (base, group)
    )
    efficiency = sum(one.values()) / sum(many.values())
    ratio = Fraction(group[0].accelerators, base[0].accelerators)
    rates = [each / float(ratio) for each in ratios_of_rounds(group, base, evaluation)]
    return ScalingPair(
        base=base[0].accelerators,
        accelerators=group[0].accelerators,
        efficiency=float(efficiency),
        efficiency_with_evaluation=float(sum(all_one.values()) / sum(all_many.values())),
        interval=interval_of_median(rates) if len(rates) >= FEWEST_PAIRS else None,
        rounds=len(rates),
        speed_up=float(efficiency * ratio),
        karp_flatt=karp_flatt(float(efficiency * ratio), float(ratio)),
        points_lost=points_lost(one, many),
    )
