"""Measure the share of 95 % intervals of the score that contain the mean score of many runs of one kind."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from aiperf.accounting.confidence import Evenness, Work, evenness_of
from aiperf.accounting.intervals import Window, share_inside

Real = npt.NDArray[np.float64]
Chance = np.random.Generator
EPOCHS = 8
"""Intervals of work per trial."""
MINUTE = 60.0
GRID = 0.5
"""Minutes between two values of a disturbance."""


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
class OneStep:
    """A power cap that begins at a random time of the window and stays."""

    speed_then: float
    begin: float

    def speed(self, moments: Real, chance: Chance) -> Real:
        at = float(chance.uniform(self.begin, float(moments[-1])))
        return np.where(moments >= at, self.speed_then, 1.0)


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
    common: Drift | Slowdowns | OneStep | None = None
    """Disturbance that affects all workers at once."""
    warmup: float = 60.0
    end: float = 720.0


DRIFT = Kind(50, trial=20.0, common=Drift(0.05, 60.0))
FIXED = Kind(1, trial=8.0, trial_spread=0.02, speed_spread=0.02, alike=0.0, gap=0.1, warmup=0.0, end=660.0)
"""A fixed network. A trial of this kind stands for an epoch, and a gap for what one worker does between two epochs."""
KINDS = {
    "few long trials, 2 workers": Kind(2, trial=150.0),
    "many short trials, 1 worker": Kind(1, trial=5.0),
    "networks that grow, 8 workers": Kind(8, trial=10.0, growth=0.6, rounds=(0.25, 0.5, 0.75, 1.0)),
    "a straggler among 8 workers": Kind(8, trial=10.0, slowest=0.5),
    "failures and downtime, 16 workers": Kind(16, trial=12.0, between_failures=120.0),
    "64 workers, growth over half of the window": Kind(64, trial=40.0, growth=0.3, rounds=(0.25, 0.5, 0.75, 1.0)),
    "common drift of 5 %, 1 h, 50 workers": DRIFT,
    "common drift of 5 %, 2 h, 4 workers": Kind(4, trial=20.0, common=Drift(0.05, 120.0)),
    "power cap of 15 %, 30 min in 2 h, 50 workers": replace(DRIFT, common=Slowdowns(90.0, 30.0, 0.85)),
    "power cap of 15 %, 1 h in 4 h, 50 workers": replace(DRIFT, common=Slowdowns(180.0, 60.0, 0.85)),
    "one power-cap step of 15 %, 50 workers": replace(DRIFT, common=OneStep(0.85, 60.0)),
    "file-system stalls of 5 min each hour, 50 workers": replace(DRIFT, common=Slowdowns(60.0, 5.0, 0.0)),
    "common drift of 5 %, 1 h, in 3 h, 50 workers": replace(DRIFT, end=240.0),
    "one trial of epochs of 8 min": FIXED,
    "one trial of epochs of 8 min, drift of 5 %, 1 h": replace(FIXED, common=Drift(0.05, 60.0)),
    "one trial of epochs of 8 min, power cap of 15 %, 30 min in 2 h": replace(
        FIXED, common=Slowdowns(90.0, 30.0, 0.85)
    ),
}


def drawn(kind: Kind, chance: Chance) -> Work:
    """Return the intervals of one run of this kind, in seconds."""
    count = kind.workers
    at, noise = chance.uniform(0, kind.trial / 5, count), chance.standard_normal(count)
    endless = not math.isfinite(kind.between_failures)
    fails = np.full(count, np.inf) if endless else chance.exponential(kind.between_failures, count)
    of_worker = np.where(np.arange(count) == 0, kind.slowest, 1.0)
    shape = kind.trial_spread**-2
    moments = np.arange(0.0, kind.end + GRID, GRID)
    speed_then = np.ones(len(moments)) if kind.common is None else kind.common.speed(moments, chance)
    done = np.concatenate([[0.0], np.cumsum(speed_then[:-1]) * GRID])
    columns: list[tuple[Real, ...]] = []
    round_ = 0
    while (at < kind.end).any():
        at = at + chance.gamma(2.0, kind.gap / 2, count)
        speed = (
            of_worker * np.maximum(0.1, 1 + kind.speed_spread * noise) * (1 + kind.growth * (1 - np.exp(-round_ / 4)))
        )
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
        noise = kind.alike * noise + math.sqrt(1 - kind.alike**2) * chance.standard_normal(count)
        round_ += 1
    worker, trial, start, until, flops = (np.concatenate(each) for each in zip(*columns, strict=True))
    return Work(worker.astype(np.int64), trial.astype(np.int64), start * MINUTE, until * MINUTE, flops)


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
    basis: str
    """Basis of the last run."""


def coverage(kind: Kind, runs: int, seed: int) -> Coverage:
    chance = np.random.default_rng(seed)
    inside = Window(kind.warmup * MINUTE, kind.end * MINUTE)
    scores, found = np.zeros(runs), list[Evenness]()
    for index in range(runs):
        work = drawn(kind, chance)
        scores[index] = np.sum(work.flops * share_inside(work.start, work.end, inside)) / inside.seconds
        found.append(evenness_of(work, inside, down_seconds=0.0))
    truth = float(scores.mean())
    shown = [each.interval for each in found if each.interval is not None]
    held = sum(low <= truth <= high for low, high in shown)
    return Coverage(
        shown=len(shown) / runs,
        covered=held / len(shown) if shown else None,
        wrong=(len(shown) - held) / runs,
        half=float(np.median([(high - low) / 2 / truth for low, high in shown])) if shown else None,
        basis=found[-1].basis,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interval_coverage", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| kind of run | runs with an interval | of them covered | wrong, of all runs | half width |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, kind in KINDS.items():
        one = coverage(kind, arguments.runs, arguments.seed)
        cells = (_share(one.shown), _share(one.covered), _share(one.wrong), _share(one.half))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


if __name__ == "__main__":
    main()
