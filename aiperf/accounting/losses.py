"""Loss waterfall from the accelerators' peak to the score. All seconds have one price, so the order does not matter."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from aiperf.accounting.accelerator_time import AcceleratorTime


@dataclass(frozen=True, slots=True)
class AcceleratorPeak:
    flops: float | None
    """FLOPS of one accelerator. None if unknown or not equal for all."""
    source: str | None
    clock_share: float | None = None
    """Mean clock while working ÷ the clock that `flops` is specified for. None if not measured or unspecified."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One bar of the waterfall: the loss by one cause. Its amounts are negative only if `why_negative` has the reason."""

    name: str
    meaning: str
    before_flops_per_second: float
    """Start of the bar: the end of the previous one."""
    after_flops_per_second: float
    """End of the bar. For the last bar this is the score to the last digit."""
    flops_per_second: float
    """Loss by this cause in FLOPS."""
    accelerator_seconds: float
    """Loss in accelerator-seconds at the peak rate."""
    share: float
    """Share of the first bar's start (the peak of all planned accelerators), 0..1."""
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
    """Losses from the peak of all planned accelerators to the score in FLOPS. The bars are contiguous and add up."""

    top_flops_per_second: float
    """Planned accelerators × peak rate of one."""
    top_source: str
    """Source of the peak rate. If none is known: the rate of this run's own training steps."""
    is_peak: bool
    """True for a dense peak or a measured matrix product. Otherwise losses of clocks and kernels are not included."""
    accelerators: int
    """Planned number, at least the maximum of simultaneously present ones."""
    accelerator_seconds: float
    """Seconds of the planned accelerators in the window."""
    flops_per_accelerator: float
    """Rate of one accelerator at the top in FLOPS: the price of one accelerator second."""
    losses: tuple[Loss, ...]
    score_flops_per_second: float
    score_accelerator_seconds: float
    """Accelerator seconds that the score's work would take at the top's rate."""
    joules: float | None = None
    """Energy measured in the window, of the devices in `energy_of`. None if not measured for every device."""
    energy_of: str | None = None
    energy: tuple[EnergyPart, ...] = ()
    """Energy by activity. The sum is `joules`."""

    @property
    def largest(self) -> tuple[Loss, ...]:
        return tuple(
            sorted((loss for loss in self.losses if loss.flops_per_second > 0), key=lambda loss: -loss.flops_per_second)
        )


OWN_RATE = "rate of this run's training steps; the peak is unknown, so losses of clocks and kernels are not included"

MEANINGS = {
    "clocks": "training steps at a lower clock than that of the peak",
    "kernels": "training steps at that clock: kernels, memory and launches below the peak",
    "clocks and kernels": "training steps below the peak; the two can be separated only with telemetry of the clocks",
    "input": "waiting for input",
    "communication": "exchange of gradients that the backward pass did not hide",
    "evaluation": "validation steps, minus the value of their counted operations",
    "checkpoints": "training stopped for a checkpoint",
    "search": "a worker without a trial waited for a proposal or an order",
    "start-up": "from the order to a network with its weights",
    "compiling": "compiling, and measuring the speed of the compiled network",
    "lost attempts": "from the last message of an attempt to its loss",
    "done again": "work that was repeated after a loss or with a smaller batch",
    "absent": "accelerators present at another time: before joining, after leaving, or without a driver",
    "never there": "planned accelerators above the maximum present at once",
    "end of the run": "from the last message of a running attempt to the end of the run",
    "unexplained": "time in no other part",
}
"""All parts in the order of their bars."""

WHY_NEGATIVE = {
    "clocks": "the clock was above that of the peak",
    "kernels": "training steps were faster than the peak at that clock: peak, clock or count is not that of this machine",
    "clocks and kernels": "training steps were faster than the peak: it is of another machine, or was measured under load",
    "evaluation": "validation steps had a higher rate than the peak",
    "unexplained": "parts overlap: a message was late, or other ranks than the worker's trained",
}


def waterfall(
    spent: AcceleratorTime, planned: int, flops_per_second: float | None, top: AcceleratorPeak
) -> Waterfall | None:
    """Losses from the peak, else from the training steps' own rate, to the score. None without rate, score or window."""
    if flops_per_second is None or spent.window_seconds <= 0 or planned <= 0:
        return None
    length, score = Fraction(spent.window_seconds), Fraction(flops_per_second)
    evaluated = Fraction(spent.validation_flops)
    trained = score * length - evaluated
    price = Fraction(top.flops) if top.flops else None
    if price is None and spent.counted.activities["training"] > 0 and trained > 0:
        price = trained / Fraction(spent.counted.activities["training"])
    if price is None:
        return None
    amounts = {name: price * seconds for name, seconds in _seconds(spent, planned).items()}
    training = price * Fraction(spent.counted.activities["training"])
    if top.flops is None:
        pass  # the price is the rate of the training steps, so they lose nothing
    elif top.clock_share is None:
        amounts["clocks and kernels"] = training - trained
    else:
        amounts["clocks"] = training * (1 - Fraction(top.clock_share))
        amounts["kernels"] = training * Fraction(top.clock_share) - trained
    amounts["evaluation"] -= evaluated
    rates = {name: amount / length for name, amount in amounts.items()}
    return _bars(rates, price, planned, length, flops_per_second, top)


def _seconds(spent: AcceleratorTime, planned: int) -> dict[str, Fraction]:
    """All parts and the training steps add up to the planned accelerators' time."""
    length, counted = Fraction(spent.window_seconds), spent.counted
    seconds = {
        "input": Fraction(counted.activities["input"]),
        "communication": Fraction(counted.activities["communication"]),
        "evaluation": Fraction(counted.activities["validation"]),
        "checkpoints": Fraction(counted.activities["checkpoint"]),
        "search": Fraction(spent.gap),
        "start-up": Fraction(spent.start),
        "compiling": Fraction(spent.compile),
        "lost attempts": Fraction(spent.lost),
        "done again": Fraction(spent.repeated.length),
        "absent": spent.accelerators * length - spent.present,
        "never there": (planned - spent.accelerators) * length,
        "end of the run": Fraction(spent.end_of_run),
    }
    seconds["unexplained"] = planned * length - sum(seconds.values()) - Fraction(counted.activities["training"])
    return seconds


def _bars(
    rates: dict[str, Fraction], price: Fraction, planned: int, length: Fraction, score: float, top: AcceleratorPeak
) -> Waterfall:
    """Each figure is rounded once. The edges of the bars are exact sums."""
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
