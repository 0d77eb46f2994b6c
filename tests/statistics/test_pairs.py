"""Factors of a score, and the same trials of two runs, pair by pair."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.comparison.compare import work_of
from aiperf.statistics.work_mix import RunWork, TrialWork, pairs, ratio_factors
from tests.builders.run import folder_of, run_of

positive = st.floats(0.1, 100.0)
works = st.builds(
    RunWork,
    flops_per_second=positive,
    accelerators=st.integers(1, 64),
    window_seconds=positive,
    trials=st.lists(st.builds(TrialWork, st.just("n"), st.just(8), positive, positive), min_size=1).map(tuple),
)


@given(st.lists(works, min_size=1), st.lists(works, min_size=1))
def test_the_factors_multiply_to_the_ratio_of_scores(first: list[RunWork], second: list[RunWork]) -> None:
    found = ratio_factors(first, second)

    means = [math.fsum(math.log(run.flops_per_second) for run in runs) / len(runs) for runs in (first, second)]
    assert math.fsum(math.log1p(factor.change) for factor in found) == pytest.approx(means[1] - means[0], abs=1e-6)


def test_a_slower_following_run_shows_its_slowness_in_pairs(tmp_path: Path) -> None:
    earlier = folder_of(tmp_path, "earlier")
    first = work_of(run_of(tmp_path, "same", {"follow": earlier}, seed=1))
    second = work_of(run_of(tmp_path, "slower", {"follow": earlier}, seed=1, slower=0.04))

    found = pairs(first, second)

    assert found is not None and found.interval is not None
    assert found.pairs > 20 and found.relative == pytest.approx(-0.04, abs=0.002)
    assert found.interval[0] <= found.relative <= found.interval[1] < 0


def test_runs_that_have_no_network_in_common_have_no_pair(tmp_path: Path) -> None:
    one = work_of(run_of(tmp_path, "one"))
    renamed = tuple(replace(trial, network=f"other {trial.network}") for trial in one.trials)

    assert pairs(one, replace(one, trials=renamed)) is None


def test_equal_runs_have_no_change_and_unequal_work_is_left_out(tmp_path: Path) -> None:
    one = work_of(run_of(tmp_path, "one"))
    half = replace(one.trials[0], operations=one.trials[0].operations / 2)
    cut: RunWork = replace(one, trials=(half, *one.trials[1:]))

    same, less = pairs(one, one), pairs(one, cut)

    assert same is not None and less is not None
    assert (same.relative, same.left_out) == (0.0, 0)
    assert (less.pairs, less.left_out) == (same.pairs - 1, 1)
