"""Ends of slow trials within the limit of the divisions gain less than 1 %."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from aiperf.config import configure
from aiperf.journal.journal import NAME, read
from aiperf.ranking.division import division
from aiperf.ranking.law import AtMost
from aiperf.report.fold import Collected, collect
from aiperf.simulate.session import drive, open_run, world_of
from tests.builders.listed_runs import TINY

VARIED = ("cluster.step_costs=[0.0005,5e-10,5e-9,0,0.0001]", "cluster.speed_spread=0", "cluster.workers=8")
"""Networks differ in the share of their operations that are no matrix products, and so in their rate."""
SCHEDULE = ("schedule.duration_seconds=1800", "schedule.warmup_seconds=20", "schedule.epochs=[4,6,8]")


def simulated(folder: Path, seed: int) -> Collected:
    words = (word for word in TINY if not word.startswith("schedule."))
    opening = open_run(configure([*words, *VARIED, *SCHEDULE, f"seed={seed}"]))
    drive(world_of(opening), opening.first, folder / NAME)
    return collect(read(folder))


@pytest.mark.parametrize("name", ["ranking", "quick"])
def test_ends_of_slow_trials_gain_less_than_one_percent(tmp_path: Path, name: str) -> None:
    """As if the slowest attempts had never begun, and their time had been spent like that of the others."""
    law = division(name).rule("ended-early").law
    assert isinstance(law, AtMost)
    run = simulated(tmp_path, seed=3)
    columns = run.work_log.intervals
    trials = np.unique(columns.trial)
    flops, seconds = (np.bincount(columns.trial, each)[trials] for each in (columns.flops, columns.end - columns.start))
    slowest = np.argsort(flops / seconds)[: int(law.bound * len(run.begun_worker))]

    kept = np.delete(flops, slowest).sum() / np.delete(seconds, slowest).sum()

    assert len(slowest) >= 3
    gain = kept / (flops.sum() / seconds.sum()) - 1
    assert 0 < gain <= 0.01, gain
