"""How far the scores of runs that differ by their seed alone lie apart, and what tuning has to do with it.

    python -m benchmarks.seed_spread [--seeds 8] [--beginnings "round 4" "round 1"] [key=value …]

Simulated runs of `+cluster=simulated schedule=ranking dataset=imagenet` with 8 workers of 8 accelerators, 12 hours: without
tuning, tuned with the usual batches (from half of the largest), and tuned from 8 images on; each as a ranking run begins,
with three rounds that are not tuned, and with tuning from round 1, where the first points are drawn at random. Shares are of
the accelerators' busy time. Simulated time: other work on the machine changes nothing.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import EpochFinished, Progress, TrialProposed
from aiperf.journal.journal import NAME, read
from benchmarks.news_age import simulated
from benchmarks.pairs import describe_machine

WORKERS = 8
FEW_WORDS = ("limits.progress_seconds=100000", "limits.silence_seconds=100000")
"""A word an epoch: the journal is a tenth as long, and the score the same but for the window's edges."""
WAYS: dict[str, tuple[str, ...]] = {
    "hpo=off": ("hpo=off",),
    "half of the largest and more (usual)": (),
    "8 and more": ("batch.smallest=8",),
}
BEGINNINGS: dict[str, tuple[str, ...]] = {"round 4": (), "round 1": ("schedule.warmup_rounds=0",)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one run."""

    flops_per_second: float
    shares: dict[str, float]
    """Of busy time, by how a trial's sizes came about."""


def outcome(seed: int, options: Sequence[str]) -> Outcome:
    """Plays a run."""
    with tempfile.TemporaryDirectory(prefix="seed-spread-") as folder:
        path = Path(folder) / NAME
        simulated(WORKERS, [*FEW_WORDS, f"seed={seed}", *options], path)
        reached = score(work_log(read(path))).flops_per_second
        assert reached is not None
        return Outcome(reached, busy_shares(path))


def busy_shares(path: Path) -> dict[str, float]:
    """Of a journal: what part of all busy time went to trials tuned this way or that."""
    tuned_by: dict[int, str] = {}
    busy: defaultdict[str, float] = defaultdict(float)
    for event in read(path):
        if isinstance(event, TrialProposed):
            tuned_by[event.number] = event.tuned_by
        elif isinstance(event, Progress):
            busy[tuned_by[event.trial]] += event.busy_seconds
        elif isinstance(event, EpochFinished) and event.interval is not None:
            busy[tuned_by[event.trial]] += event.interval.busy_seconds
    return {way: seconds / sum(busy.values()) for way, seconds in busy.items()}


def main() -> None:
    """Prints Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--beginnings", nargs="*", choices=BEGINNINGS, default=list(BEGINNINGS))
    parser.add_argument("options", nargs="*", help="options of all runs")
    asked = parser.parse_args()
    print(f"{describe_machine()}; seeds 0 to {asked.seeds - 1}; {' '.join(asked.options) or 'defaults'}\n")
    print("| tuned from | batches | score, mean | spread (deviation ÷ mean) | busy in start-up draws | in TPE's |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for beginning in asked.beginnings:
        for way, chosen in WAYS.items():
            runs = [outcome(seed, (*BEGINNINGS[beginning], *chosen, *asked.options)) for seed in range(asked.seeds)]
            print(_row(beginning, way, runs), flush=True)


def _row(beginning: str, way: str, runs: Sequence[Outcome]) -> str:
    scores = [run.flops_per_second for run in runs]
    mean = statistics.fmean(scores)
    startup, tpe = (statistics.fmean(run.shares.get(by, 0.0) for run in runs) for by in ("startup", "tpe"))
    spread = statistics.stdev(scores) / mean
    return f"| {beginning} | {way} | {mean / 1e15:.3f} PFLOPS | {spread:.2%} | {startup:.1%} | {tpe:.1%} |"


if __name__ == "__main__":
    main()
