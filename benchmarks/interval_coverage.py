"""Measure how many 95 % intervals contain the mean of many runs of one kind, before and after the expected rate is taken out.

Before (method 3): the interval of the score, and the mean score. After (method 4): that of rate ÷ expected rate. The truth of
a run is its work ÷ the true expected rate of each network. The fit sees columns of the journal and does not know it. Each
network's rate differs from the expected one by UNEXPLAINED.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import astuple, dataclass, replace

import numpy as np
import numpy.typing as npt

from aiperf.accounting.confidence import evenness_of
from aiperf.accounting.expected_rate import Work
from aiperf.accounting.intervals import Window, share_inside

Real = npt.NDArray[np.float64]
Chance = np.random.Generator
EPOCHS = 8
"""Intervals of work per trial."""
MINUTE = 60.0
GRID = 0.5
"""Minutes between two values of a disturbance."""
UNEXPLAINED = 0.05
"""Standard deviation of a network's rate around the one that its columns explain."""
BY_OPERATIONS, BY_BATCH = 0.4, 0.05
"""Exponents of the true expected rate. Parameters have none."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Gaussian disturbance with an exponentially falling correlation."""

    deviation: float
    correlation: float
    """Minutes."""

    def speed(self, moments: Real, chance: Chance) -> Real:
        keep = math.exp(-GRID / self.correlation)
        steps = chance.standard_normal(len(moments)) * math.sqrt(1 - keep**2)
        values = np.empty(len(moments))
        value = float(chance.standard_normal())
        for index, step in enumerate(steps.tolist()):
            value = keep * value + step
            values[index] = value
        return np.maximum(0.0, 1 + self.deviation * values)


@dataclass(frozen=True, slots=True)
class Slowdowns:
    every: float
    """Mean time between two periods, in minutes."""
    lasting: float
    """Mean length, in minutes."""
    speed_then: float

    def speed(self, moments: Real, chance: Chance) -> Real:
        lost = np.zeros(len(moments))
        at = -10 * self.lasting
        while at < moments[-1]:
            at += float(chance.exponential(self.every))
            end = at + float(chance.exponential(self.lasting))
            lost += np.clip((np.minimum(end, moments + GRID) - np.maximum(at, moments)) / GRID, 0, 1)
            at = end
        return 1 - (1 - self.speed_then) * lost


@dataclass(frozen=True, slots=True)
class Once:
    """A power cap or outage that begins at a random time of the window, in a share of the runs."""

    speed_then: float
    begin: float
    lasting: float = float("inf")
    """Minutes."""
    share: float = 1.0

    def speed(self, moments: Real, chance: Chance) -> Real:
        at = float(chance.uniform(self.begin, float(moments[-1])))
        is_slow = (moments >= at) & (moments < at + self.lasting) & (chance.random() < self.share)
        return np.where(is_slow, self.speed_then, 1.0)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of run. Times are in minutes, speeds are shares of a worker's usual one."""

    workers: int
    trial: float
    """Mean length of a trial."""
    trial_spread: float = 0.4
    """Coefficient of variation of the lengths (gamma)."""
    speed_spread: float = 0.15
    """Standard deviation of a trial's speed: networks differ in speed."""
    alike: float = 0.3
    """Correlation of the speeds of a worker's successive trials: children resemble their parents."""
    is_one_network: bool = False
    """True: a trial stands for an epoch, and there is no expected rate."""
    gap: float = 0.2
    """Mean gap between two trials."""
    growth: float = 0.0
    """Growth of the speed over the rounds, levelling off after some four of them."""
    rounds: tuple[float, ...] = (1.0,)
    """Lengths of a worker's first trials relative to the usual one. The last value holds for all later trials."""
    slowest: float = 1.0
    """Speed of worker 0. Its trials take correspondingly longer."""
    between_failures: float = float("inf")
    """Mean time between failures of one worker."""
    repair: float = 3.0
    common: Drift | Slowdowns | Once | None = None
    """Disturbance that affects all workers at once."""
    warmup: float = 60.0
    end: float = 720.0


DRIFT = Kind(50, trial=20.0, common=Drift(0.05, 60.0))
FIXED = Kind(
    1, trial=8.0, trial_spread=0.02, speed_spread=0.02, alike=0.0, gap=0.1, warmup=0.0, end=660.0, is_one_network=True
)
"""A fixed network. A gap stands for what its worker does between two epochs."""
GROWTH = Kind(50, trial=40.0, growth=0.3, rounds=(0.25, 0.5, 0.75, 1.0))
KINDS = {
    "few long trials, 2 workers": Kind(2, trial=150.0),
    "many short trials, 1 worker": Kind(1, trial=5.0),
    "networks that grow, 8 workers": Kind(8, trial=10.0, growth=0.6, rounds=(0.25, 0.5, 0.75, 1.0)),
    "a straggler among 8 workers": Kind(8, trial=10.0, slowest=0.5),
    "failures and downtime, 16 workers": Kind(16, trial=12.0, between_failures=120.0),
    "64 workers, growth over half of the window": Kind(64, trial=40.0, growth=0.3, rounds=(0.25, 0.5, 0.75, 1.0)),
    "growth of 30 %, 50 workers": GROWTH,
    "growth of 30 %, 50 workers, common drift of 5 %, 1 h": replace(GROWTH, common=Drift(0.05, 60.0)),
    "common drift of 5 %, 1 h, 50 workers": DRIFT,
    "common drift of 5 %, 2 h, 4 workers": Kind(4, trial=20.0, common=Drift(0.05, 120.0)),
    "power cap of 15 %, 30 min in 2 h, 50 workers": replace(DRIFT, common=Slowdowns(90.0, 30.0, 0.85)),
    "power cap of 15 %, 1 h in 4 h, 50 workers": replace(DRIFT, common=Slowdowns(180.0, 60.0, 0.85)),
    "one power-cap step of 15 %, 50 workers": replace(DRIFT, common=Once(0.85, 60.0)),
    "file-system stalls of 5 min each hour, 50 workers": replace(DRIFT, common=Slowdowns(60.0, 5.0, 0.0)),
    "one outage of 40 min in half of the runs, 50 workers": replace(DRIFT, common=Once(0.0, 60.0, 40.0, 0.5)),
    "common drift of 5 %, 1 h, in 3 h, 50 workers": replace(DRIFT, end=240.0),
    "one trial of epochs of 8 min": FIXED,
    "one trial of epochs of 8 min, drift of 5 %, 1 h": replace(FIXED, common=Drift(0.05, 60.0)),
    "one trial of epochs of 8 min, power cap of 15 %, 30 min in 2 h": replace(
        FIXED, common=Slowdowns(90.0, 30.0, 0.85)
    ),
}


def drawn(kind: Kind, chance: Chance) -> tuple[Work, Real]:
    """Return the intervals of one run of this kind, in seconds, and the true expected rate of each interval."""
    count = kind.workers
    at, noise, luck = chance.uniform(0, kind.trial / 5, count), *chance.standard_normal((2, count))
    endless = not math.isfinite(kind.between_failures)
    fails = np.full(count, np.inf) if endless else chance.exponential(kind.between_failures, count)
    of_worker = np.where(np.arange(count) == 0, kind.slowest, 1.0)
    shape = kind.trial_spread**-2
    moments = np.arange(0.0, kind.end + GRID, GRID)
    speed_then = np.ones(len(moments)) if kind.common is None else kind.common.speed(moments, chance)
    done = np.concatenate([[0.0], np.cumsum(speed_then[:-1]) * GRID])
    columns: list[tuple[Real, ...]] = []
    networks: list[Real] = []
    round_ = 0
    while (at < kind.end).any():
        at = at + chance.gamma(2.0, kind.gap / 2, count)
        grown = np.maximum(0.1, 1 + kind.speed_spread * noise) * (1 + kind.growth * (1 - np.exp(-round_ / 4)))
        operations, batch = np.log(grown) / BY_OPERATIONS, math.log(2) * chance.integers(0, 4, count)
        networks.append(np.stack([operations, operations + 0.3 * chance.standard_normal(count), batch], axis=1))
        speed = of_worker * grown
        if not kind.is_one_network:
            speed = speed * np.exp(BY_BATCH * batch + UNEXPLAINED * luck)
        usual = kind.trial * kind.rounds[min(round_, len(kind.rounds) - 1)] / of_worker
        length = chance.gamma(shape, usual / shape)
        edges = at[:, None] + length[:, None] * np.linspace(0, 1, EPOCHS + 1)
        start, end = edges[:, :-1], edges[:, 1:]
        # A failure loses the current epoch. An epoch that the end of the run interrupts counts in part.
        is_kept = (start < kind.end) & (end <= fails[:, None])
        until = np.minimum(end, kind.end)
        ran = np.interp(until, moments, done) - np.interp(np.minimum(start, until), moments, done)
        flops = speed[:, None] * ran * np.maximum(0.0, 1 + 0.05 * chance.standard_normal(start.shape))
        worker = np.broadcast_to(np.arange(float(count))[:, None], start.shape)
        of_trial: tuple[Real, ...] = (worker, worker + count * round_, start, until, flops)
        columns.append(tuple(each[is_kept] for each in of_trial))
        at = at + length
        failed = at > fails
        at = np.where(failed, np.maximum(fails, edges[:, 0]) + chance.exponential(kind.repair, count), at)
        if not endless:
            fails = np.where(failed, at + chance.exponential(kind.between_failures, count), fails)
        noise, luck = (
            kind.alike * each + math.sqrt(1 - kind.alike**2) * chance.standard_normal(count) for each in (noise, luck)
        )
        round_ += 1
    worker, trial, start, until, flops = (np.concatenate(each) for each in zip(*columns, strict=True))
    unit, table = trial.astype(np.int64), None if kind.is_one_network else np.concatenate(networks)
    work = Work(worker.astype(np.int64), unit, start * MINUTE, until * MINUTE, flops, table)
    return work, np.ones(len(unit)) if table is None else np.exp(table @ (BY_OPERATIONS, 0.0, BY_BATCH))[unit]


@dataclass(frozen=True, slots=True)
class Coverage:
    shown: float
    """Share of the runs that have an interval."""
    covered: float | None
    """Share of the shown intervals that contain the true value. None if no run has an interval."""
    wrong: float
    """Share of all runs with an interval that misses the true value."""
    half: float | None
    """Median of half the interval's width, as a share of the score."""


def coverage(kind: Kind, runs: int, seed: int) -> tuple[Coverage, Coverage]:
    """Coverage before and after the expected rate is taken out."""
    chance = np.random.default_rng(seed)
    inside = Window(kind.warmup * MINUTE, kind.end * MINUTE)
    values, halves = np.zeros((2, runs)), np.full((2, runs), np.nan)
    for index in range(runs):
        work, expected = drawn(kind, chance)
        share = share_inside(work.start, work.end, inside)
        values[:, index] = np.sum(work.flops * share), np.sum(work.flops / expected * share)
        score = values[0, index] / inside.seconds
        for row, of in enumerate((replace(work, networks=None), work)):
            found = evenness_of(of, inside, down_seconds=0.0).interval
            if found is not None:
                halves[row, index] = found[1] / score - 1
    return _covered(values[0], halves[0]), _covered(values[1], halves[1])


def _covered(values: Real, halves: Real) -> Coverage:
    is_shown = np.isfinite(halves)
    is_covered = np.abs(values - values.mean()) <= halves * values
    shown, held = int(is_shown.sum()), int(is_covered.sum())
    return Coverage(
        shown=shown / len(values),
        covered=held / shown if shown else None,
        wrong=(shown - held) / len(values),
        half=float(np.median(halves[is_shown])) if shown else None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interval_coverage", description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help="only kinds with this text in their name")
    arguments = parser.parse_args()
    titles = ("with an interval", "covered", "wrong, of all", "half width")
    print(f"| kind of run | {' | '.join(f'{title}: before | after' for title in titles)} |")
    print(f"| --- |{' ---: |' * 8}")
    for name, kind in KINDS.items():
        if arguments.kind in name:
            pairs = zip(*map(astuple, coverage(kind, arguments.runs, arguments.seed)), strict=True)
            print(f"| {name} | {' | '.join(_share(value) for pair in pairs for value in pair)} |", flush=True)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


if __name__ == "__main__":
    main()
