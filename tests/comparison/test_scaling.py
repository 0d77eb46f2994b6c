"""`python -m aiperf compare --scaling`: one line for each number of accelerators."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.comparison.cluster_sizes import Curve
from aiperf.comparison.scaling_page import mean_curve
from aiperf.journal.journal import NAME
from aiperf.simulate.session import drive, open_run, world_of
from aiperf.statistics.difference import pooled
from aiperf.statistics.estimate import quantile
from tests.rigs.user import User
from tests.simulate.test_session import configured


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sizes")
    for name, workers, seed, hours in (
        ("one", 1, 0, 1.0),
        ("two", 2, 3, 1.0),
        ("twice", 2, 4, 1.0),
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

    found = json.loads(aiperf("compare", "--scaling", *words, "--json").out)["sizes"]

    small, large = found
    assert (small["accelerators"], large["accelerators"]) == (8, 32)
    assert small["efficiency"] == 1.0 and large["runs"] == ["four", "again"]
    assert large["efficiency"] == pytest.approx(large["flops_per_second"] / 4 / small["flops_per_second"])
    assert 0.9 < large["efficiency"] < 1.1


def test_scaling_prints_a_table(aiperf: User, sizes: Path) -> None:
    answer = aiperf("compare", "--scaling", str(sizes / "one"), str(sizes / "four"))

    assert answer.status == 0 and "efficiency" in answer.out and "100.0 %" in answer.out


def test_repeats_are_pooled_over_all_sizes(aiperf: User, sizes: Path) -> None:
    words = [str(sizes / name) for name in ("one", "two", "twice", "four", "again")]

    small, *larger = json.loads(aiperf("compare", "--scaling", *words, "--json").out)["sizes"]

    scores = [json.loads(aiperf("score", word, "--json").out)["flops_per_second"] for word in words]
    spread = pooled([scores[:1], scores[1:3], scores[3:]])
    assert spread is not None and spread.freedom == 2
    assert small["efficiency_interval"] is None
    half = quantile(2) * spread.variation * math.sqrt(1 + 1 / 2)
    for each in larger:
        low, high = each["efficiency_interval"]
        assert each["basis"] == "pooled"
        assert (low, high) == (
            pytest.approx(each["efficiency"] * math.exp(-half)),
            pytest.approx(each["efficiency"] * math.exp(half)),
        )


def test_sizes_without_repeats_are_not_tested(aiperf: User, sizes: Path) -> None:
    words = [str(sizes / name) for name in ("one", "two", "four")]

    printed = " ".join(aiperf("compare", "--scaling", *words).out.split())

    assert printed.count("(not tested)") == 2 and "the spread between runs is unknown" in printed


def test_every_run_of_every_size_is_in_the_picture(aiperf: User, sizes: Path, tmp_path: Path) -> None:
    words = [str(sizes / name) for name in ("one", "two", "four", "again")]

    answer = aiperf("compare", "--scaling", *words, "--out", str(tmp_path), "--json")

    found = json.loads(answer.out)
    assert answer.status == 0 and found == json.loads((tmp_path / "scaling.json").read_text())
    page = (tmp_path / "scaling.html").read_text()
    for name in ("scaling-over-time", "scaling-efficiency"):
        assert (tmp_path / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG") and name in page
    assert all(f">{label}<" in page for label in ("8", "16", "32 (2 runs)"))
    for run in (run for size in found["sizes"] for run in size["curves"]):
        score, regulated, error = (run[name] for name in ("score", "regulated", "error"))
        assert score and regulated and [best for _, best in error] == sorted((best for _, best in error), reverse=True)
    assert [run["run"] for run in found["sizes"][2]["curves"]] == ["four", "again"]
    assert found["sizes"][0]["curves"][0]["score"][-1][1] == pytest.approx(found["sizes"][0]["flops_per_second"])


points = st.dictionaries(st.integers(0, 50), st.floats(-10, 10), min_size=1).map(lambda of: tuple(sorted(of.items())))


@given(st.lists(points, min_size=1, max_size=4))
def test_a_mean_of_curves_is_that_of_their_last_values(curves: list[Curve]) -> None:
    mean = mean_curve(curves)

    moments = sorted({at for curve in curves for at, _ in curve if at >= max(each[0][0] for each in curves)})
    last = [[[value for at, value in curve if at <= moment][-1] for curve in curves] for moment in moments]
    assert [at for at, _ in mean] == moments
    assert [value for _, value in mean] == pytest.approx([fmean(each) for each in last])


def test_without_scaling_out_is_a_file(aiperf: User, sizes: Path, tmp_path: Path) -> None:
    answer = aiperf("compare", str(sizes / "one"), str(sizes / "two"), "--out", str(tmp_path))

    assert answer.status == 2 and "cannot be written (Is a directory)" in answer.err


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
