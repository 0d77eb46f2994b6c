"""Small runs full of faults keep every law, whatever happens to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiperf.simulate.cases import Failed, explained, play, random_case, smaller

BLOCK = 25


def check(first: int) -> None:
    for seed in range(first, first + BLOCK):
        try:
            play(random_case(seed))
        except Failed as failed:
            pytest.fail(explained(smaller(failed), keep=Path(f"failed-{seed}.jsonl")), pytrace=False)


@pytest.mark.parametrize("first", range(0, 400, BLOCK))
def test_runs_full_of_faults_keep_every_law(first: int) -> None:
    check(first)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(400, 10_000, BLOCK))
def test_ten_thousand_runs_full_of_faults_keep_every_law(first: int) -> None:
    check(first)
