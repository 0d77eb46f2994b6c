"""Small runs with many random faults keep every law."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.planted_faults import DriverDiesConf
from tests.audit.random_runs import Case, Failed, explained, play, random_case, smaller

BLOCK = 25


def check(first: int) -> None:
    for seed in range(first, first + BLOCK):
        try:
            play(random_case(seed))
        except Failed as failed:
            pytest.fail(explained(smaller(failed), keep=Path(f"failed-{seed}.jsonl")), pytrace=False)


@pytest.mark.parametrize(
    "first", [*range(0, 100, BLOCK), *(pytest.param(one, marks=pytest.mark.slow) for one in range(100, 400, BLOCK))]
)
def test_runs_full_of_faults_keep_every_law(first: int) -> None:
    check(first)


@pytest.mark.parametrize("seed", range(30))
def test_drivers_killed_near_the_runs_end_keep_every_law(seed: int) -> None:
    # A driver killed while it writes the end has an end in memory that is not on disk. The next driver writes its own.
    case = Case(seed, workers=4, workers_per_host=2, seconds=20.0, faults=(DriverDiesConf(rate=0.7, seconds=1),))

    played = play(case)

    assert played.drivers > 1
    whole = [line for line in played.journal.splitlines() if line.endswith(b'"}')]  # the last one may be torn
    assert [b'"reason":"duration"' in line for line in whole if b'"event":"RunEnded"' in line] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(400, 10_000, BLOCK))
def test_ten_thousand_runs_full_of_faults_keep_every_law(first: int) -> None:
    check(first)
