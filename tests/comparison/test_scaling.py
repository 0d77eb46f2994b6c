"""`python -m aiperf compare --scaling`: one line for each number of accelerators."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from aiperf.journal.journal import NAME
from aiperf.simulate.session import drive, open_run, world_of
from tests.rigs.user import User
from tests.simulate.test_session import configured


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sizes")
    for name, workers, seed, hours in (
        ("one", 1, 0, 1.0),
        ("four", 4, 1, 1.0),
        ("again", 4, 2, 1.0),
        ("short", 2, 0, 0.9),
    ):
        conf = replace(configured(seed=seed, hours=hours, workers=workers, speed_spread=0.0), name=name)
        opening = open_run(conf)
        (folder / name).mkdir()
        drive(world_of(opening), opening.first, folder / name / NAME)
    return folder


def test_efficiency_is_score_per_accelerator(aiperf: User, sizes: Path) -> None:
    words = [str(sizes / name) for name in ("four", "one", "again")]

    found = json.loads(aiperf("compare", "--scaling", *words, "--json").out)

    small, large = found
    assert (small["accelerators"], large["accelerators"]) == (8, 32)
    assert small["efficiency"] == 1.0 and large["runs"] == ["four", "again"]
    assert large["efficiency"] == pytest.approx(large["flops_per_second"] / 4 / small["flops_per_second"])
    assert 0.9 < large["efficiency"] < 1.1


def test_scaling_prints_a_table(aiperf: User, sizes: Path) -> None:
    answer = aiperf("compare", "--scaling", str(sizes / "one"), str(sizes / "four"))

    assert answer.status == 0 and "efficiency" in answer.out and "100.0 %" in answer.out


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("four", "again"), "found 2 runs with 32 accelerators"),
        (("one", "short"), "compared runs have one data set and one length"),
        (("one", "one", "four"), "each run is given once"),
    ],
)
def test_runs_that_show_no_scaling_are_refused(aiperf: User, sizes: Path, names: tuple[str, ...], reason: str) -> None:
    answer = aiperf("compare", "--scaling", *(str(sizes / name) for name in names))

    assert answer.status == 2 and reason in " ".join(answer.err.split())
