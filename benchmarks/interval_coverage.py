"""How often the score's 95 % interval holds the mean that chance alone parts a run from.

Six kinds of run are made up as a stochastic process: trials of random length and speed, the gaps between them, growth that
levels off, one slow worker, failures with repair. The truth of a kind is the mean score of all runs drawn of it: growth and the
slow worker are the same in each, and no chance. Method 1 (the bootstrap over 40 blocks) stands beside the present one.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from aiperf.accounting.confidence import Evenness, Work, evenness_of
from aiperf.accounting.presence import Presence
from aiperf.accounting.windows import Window, share_inside

Real = npt.NDArray[np.float64]
EPOCHS = 8
"""Intervals of work of a trial."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of run; times in minutes, speeds as parts of a worker's usual one."""

    workers: int
    trial: float
    """Mean length of a trial."""
    trial_spread: float = 0.4
    """Coefficient of variation of the lengths (gamma)."""
    speed_spread: float = 0.15
    """Standard deviation of a trial's speed: networks run unlike fast."""
    alike: float = 0.3
    """Correlation of the speeds of a worker's successive trials: children are like their parents."""
    gap: float = 0.2
    """Mean gap between two trials."""
    growth: float = 0.0
    """By how much speed grows over the rounds, levelling off after some four of them."""
    rounds: tuple[float, ...] = (1.0,)
    """Lengths of a worker's first trials as parts of the usual one; the last holds for all after."""
    slowest: float = 1.0
    """Speed of worker 0; its trials are the longer for it."""
    between_failures: float = float("inf")
    """Of one worker, mean."""
    repair: float = 3.0
    warmup: float = 20.0
    end: float = 200.0


KINDS = {
    "few long trials, 2 workers": Kind(2, trial=40.0),
    "many short trials, 1 worker": Kind(1, trial=2.0),
    "networks that grow, 8 workers": Kind(8, trial=5.0, growth=0.6, rounds=(0.25, 0.5, 0.75, 1.0)),
    "a straggler among 8 workers": Kind(8, trial=5.0, slowest=0.5),
    "failures and downtime, 16 workers": Kind(16, trial=6.0, between_failures=60.0),
    "64 workers, few trials each": Kind(64, trial=40.0, growth=0.3, rounds=(0.25, 0.5, 0.75, 1.0)),
}


def drawn(kind: Kind, chance: np.random.Generator) -> tuple[Work, list[Presence]]:
    """One run of that kind."""
    rows: list[tuple[int, int, float, float, float]] = []
    number = 0
    for worker in range(kind.workers):
        at, round_, noise = float(chance.uniform(0, kind.trial / 5)), 0, float(chance.standard_normal())
        fails = float(chance.exponential(kind.between_failures)) if np.isfinite(kind.between_failures) else np.inf
        of_worker = kind.slowest if worker == 0 else 1.0
        while at < kind.end:
            at += float(chance.gamma(2.0, kind.gap / 2))
            speed = of_worker * max(0.1, 1 + kind.speed_spread * noise) * (1 + kind.growth * (1 - np.exp(-round_ / 4)))
            shape = kind.trial_spread**-2
            usual = kind.trial * kind.rounds[min(round_, len(kind.rounds) - 1)] / of_worker
            length = float(chance.gamma(shape, usual / shape))
            edges = np.linspace(at, at + length, EPOCHS + 1).tolist()
            until = min(kind.end, fails)
            for start, end in pairwise(edges):
                flops = speed * (end - start) * max(0.0, 1 + 0.05 * float(chance.standard_normal()))
                if end <= until:
                    rows.append((worker, number, start, end, flops))
                elif start < until == kind.end:  # what the end cuts short counts as far as it went
                    rows.append((worker, number, start, until, flops * (until - start) / (end - start)))
            at += length
            if at > fails:
                at = max(fails, edges[0]) + float(chance.exponential(kind.repair))
                fails = at + float(chance.exponential(kind.between_failures))
            noise = kind.alike * noise + np.sqrt(1 - kind.alike**2) * float(chance.standard_normal())
            number, round_ = number + 1, round_ + 1
    columns = list(zip(*rows, strict=True))
    whole, real = [np.array(each, dtype=np.int64) for each in columns[:2]], [np.array(each) for each in columns[2:]]
    there = [Presence(worker, f"n{worker}", "", 1, 0.0) for worker in range(kind.workers)]
    return Work(whole[0], whole[1], real[0], real[1], real[2]), there


def bootstrapped(work: Work, inside: Window, chance: np.random.Generator) -> tuple[float, float]:
    """Method 1: percentiles of the means of 40 blocks that are drawn with replacement."""
    edges = np.linspace(inside.start, inside.end, 41)
    blocks = np.array(
        [np.sum(work.flops * share_inside(work.start, work.end, Window(start, end))) for start, end in pairwise(edges)]
    )
    low, high = np.percentile(blocks[chance.integers(0, 40, size=(400, 40))].mean(axis=1), [2.5, 97.5])
    return float(low) * 40 / inside.seconds, float(high) * 40 / inside.seconds


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of one kind of run."""

    shown: float
    """Share of the runs that have an interval."""
    covered: float | None
    """Share of these whose interval holds the truth; None: none has one."""
    half: float | None
    """Median of half its width, as a share of the score."""
    former: float
    """Covered by method 1."""
    basis: str
    """Of the last run."""


def coverage(kind: Kind, runs: int, seed: int) -> Coverage:
    """Draws runs and counts."""
    chance = np.random.default_rng(seed)
    inside = Window(kind.warmup, kind.end)
    scores, found, former = np.zeros(runs), list[Evenness](), np.zeros((runs, 2))
    for index in range(runs):
        work, there = drawn(kind, chance)
        scores[index] = np.sum(work.flops * share_inside(work.start, work.end, inside)) / inside.seconds
        found.append(evenness_of(work, there, inside, down_seconds=0.0))
        former[index] = bootstrapped(work, inside, chance)
    truth = float(scores.mean())
    shown = [each.interval for each in found if each.interval is not None]
    return Coverage(
        shown=len(shown) / runs,
        covered=sum(low <= truth <= high for low, high in shown) / len(shown) if shown else None,
        half=float(np.median([(high - low) / 2 / truth for low, high in shown])) if shown else None,
        former=float(np.mean((former[:, 0] <= truth) & (truth <= former[:, 1]))),
        basis=found[-1].basis,
    )


def main() -> None:
    """Prints a line for each kind."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interval_coverage", description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(
        "| kind of run | runs with an interval | of them covered | half width | method 1 covered | last run's sample |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    for name, kind in KINDS.items():
        one = coverage(kind, arguments.runs, arguments.seed)
        covered = "–" if one.covered is None else f"{one.covered:.1%}"
        half = "–" if one.half is None else f"{one.half:.2%}"
        print(f"| {name} | {one.shown:.1%} | {covered} | {half} | {one.former:.1%} | {one.basis} |", flush=True)


if __name__ == "__main__":
    main()
