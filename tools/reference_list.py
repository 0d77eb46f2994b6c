"""Make the reference lists of the package with a simulated ranking search: python -m tools.reference_list."""

from __future__ import annotations

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from aiperf.config import configure
from aiperf.journal.journal import NAME, read
from aiperf.ranking.levels import is_of_step
from aiperf.rules import limits
from aiperf.rules.followed import ListedTrial, TrialList, listed
from aiperf.simulate.session import drive, open_run, world_of

TRIALS = 96
DOUBLED_AFTER = 12
"""Trials after which the samples double, so that a fast and a slow machine train a similar number of trials."""
BATCHES = {"reference": (64, 128), "reference_224": (128, 256)}
SEARCH = (
    "+cluster=simulated", "cluster.workers=1", "cluster.accelerators=1", "schedule.epochs=[15,30,45,60]",
    "schedule.duration_seconds=864000", f"limits.trials={TRIALS}", "limits.spares=0", "cluster.flops=4e12", "budget.factor=4",
)  # fmt: skip


def make(name: str) -> TrialList:
    small, large = BATCHES[name]
    batches = (f"batch.default={small}", f"batch.smallest={small}", f"batch.largest={large}")
    words = [word for word in limits.PACKAGED[name] if not word.startswith("schedule.duration")]
    opening = open_run(configure([*words, *SEARCH, *batches]))
    with TemporaryDirectory() as folder:
        drive(world_of(opening), opening.first, path := Path(folder) / NAME)
        _, found = listed(read(path), is_of_step)
    images = found.dataset["training_images"]

    def as_listed(place: int, trial: ListedTrial) -> ListedTrial:
        batch = small if trial.batch < (small + large) / 2 else large
        return msgspec.structs.replace(trial, batch=batch, samples=images * 2 ** (place // DOUBLED_AFTER))

    return msgspec.structs.replace(found, trials=tuple(as_listed(*each) for each in enumerate(found.trials[:TRIALS])))


if __name__ == "__main__":
    for name in limits.PACKAGED:
        made = make(name)
        packed = gzip.compress(msgspec.json.encode(made, order="deterministic"), mtime=0)
        Path(limits.__file__).with_name(f"{name}.json.gz").write_bytes(packed)
        print(f"{name}: {len(made.trials)} trials, {made.sha256}")
