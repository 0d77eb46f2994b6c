"""Ratio of two machines from the trials of one list: exact if steady, covered under disturbances, found if planted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.comparison.compare import seconds_of_machine
from aiperf.statistics.machine_ratio import BLOCKS, machine_ratio
from benchmarks.interval_coverage import Drift
from benchmarks.reference_pairs import modelled, works
from tests.builders.run import folder_of, run_of


@given(st.dictionaries(st.integers(0, 95), st.floats(0.1, 1e3), min_size=1), st.floats(0.1, 10))
def test_a_steady_machine_has_the_ratio_of_its_speed(seconds: dict[int, float], speed: float) -> None:
    found = machine_ratio(seconds, {place: value / speed for place, value in seconds.items()})

    assert found is not None and found.ratio == pytest.approx(speed)
    assert found.trials == len(seconds) and found.blocks <= BLOCKS
    assert (found.interval is None) == (len(seconds) < 4)


def test_runs_without_a_common_trial_have_no_ratio() -> None:
    assert machine_ratio({0: 1.0}, {1: 1.0}) is None


def test_intervals_cover_the_ratio_and_find_three_percent() -> None:
    """Disturbances of 12 s and a deviation of 2 %, in both machines."""
    operations, drift, chance = works(), Drift(0.02, 0.2), np.random.default_rng(0)
    covered = found = 0
    for _ in range(200):
        first, second = (modelled(operations, drift, chance) for _ in range(2))
        equal = machine_ratio(first, second)
        slower = machine_ratio(first, modelled(operations, drift, chance, slower=0.03))
        assert equal is not None and slower is not None and equal.interval is not None and slower.interval is not None
        covered += equal.interval[0] <= 1 <= equal.interval[1]
        found += slower.interval[1] < 1

    assert 180 <= covered <= 198
    assert found >= 140


def test_simulated_machines_of_one_list_have_the_planted_ratio(tmp_path: Path) -> None:
    earlier = folder_of(tmp_path, "earlier")
    options: dict[str, object] = {"follow": earlier, "cluster.build_seconds": 1e-6, "cluster.compile_seconds": 1e-6}
    first, second, wide = (
        seconds_of_machine(run_of(tmp_path, name, {**options, "cluster.workers": workers}, slower=slower))
        for name, workers, slower in (("same", 1, 0.0), ("slower", 1, 0.03), ("wide", 4, 0.0))
    )

    slower, four = machine_ratio(first, second), machine_ratio(first, wide)

    assert slower is not None and slower.interval is not None and four is not None
    assert slower.ratio == pytest.approx(0.97, abs=0.005) and slower.interval[1] < 1
    assert four.ratio == pytest.approx(4, rel=0.1)
