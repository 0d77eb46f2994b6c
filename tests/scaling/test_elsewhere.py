"""Reported points and predictions: published figures, refusals, and the gap to measured points."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from aiperf.__main__ import main
from aiperf.errors import BadConfiguration, CannotCompare
from aiperf.page.terminal import parts_lines
from aiperf.scaling.efficiency import scaling
from aiperf.scaling.elsewhere import FORMAT, PREDICTION, read_points, read_prediction
from aiperf.scaling.scale_text import parts, scale_json
from aiperf.scaling.study import study
from tests.builders.scaling_point import a_point, steady

HEADER = "label,accelerators,global_batch,images_per_second,steps_to_target\n"


def points_file(folder: Path, *lines: str, header: str = HEADER) -> Path:
    path = folder / "points.csv"
    path.write_text(header + "\n".join(lines) + "\n")
    return path


def test_figures_of_ying_et_al(tmp_path: Path) -> None:
    """1.05 million images/s at 77 % of 1024 chips (arXiv:1811.06992)."""
    path = points_file(tmp_path, "Ying,1,32,1332,", "Ying,1024,32768,1.05e6,1000")

    one, all_chips = read_points(path)

    assert all_chips.efficiency is not None and round(all_chips.efficiency, 2) == 0.77
    assert (round(1e3 * one.step_seconds, 1), round(1e3 * all_chips.step_seconds, 1)) == (24.0, 31.2)
    found = study([steady(1, 10.0), steady(2, 19.0)], reported=path)
    assert any(
        "1025 images/s of each" in line and "Its lines are unknown" in line for line in parts_lines(parts(found))
    )
    assert any(
        line.startswith("1024 accelerators") and "31 s to its target" in line for line in parts_lines(parts(found))
    )
    assert scale_json(found)["reported"][1]["label"] == "Ying"


@pytest.mark.parametrize(
    ("lines", "header", "message"),
    [
        (["a,1,32,,"], HEADER, "found 'a,1,32,,' in line 2.*images_per_second.*fill the gap"),
        (["a,1.5,32,10,"], HEADER, "found 'a,1.5,.*accelerators"),
        (["a,-1,32,10,"], HEADER, "found 'a,-1,"),
        (["a,1,32,nan,"], HEADER, "found 'a,1,32,nan"),
        (["a,1,32,1e400,"], HEADER, "found 'a,1,32,1e400"),
        (["a,1,32,10,5,6"], HEADER, "found 'a,1,32,10,5"),
        ([",1,32,10,"], HEADER, "found ',1,32,10"),
        (["a,1,32,10,", "a,1,32,11,"], HEADER, "each label, number of accelerators and batch once"),
        (["a,1,32,10,"], "a,b\n", "has the header label,accelerators"),
    ],
)
def test_a_wrong_file_of_points_is_refused(tmp_path: Path, lines: list[str], header: str, message: str) -> None:
    with pytest.raises(BadConfiguration, match=message):
        read_points(points_file(tmp_path, *lines, header=header))


def predicted(folder: Path, **changes: Any) -> Path:
    """Prediction of 90 % with 2 and of 80 % with 4 accelerators. The evaluation takes half of the training time."""
    rows = [
        {"accelerators": size, "seconds_per_image": {"compute": 1.0, "exchange": 1 / share - 1, "evaluation": 0.5}}
        for size, share in ((1, 1.0), (2, 0.9), (4, 0.8))
    ]
    (folder / PREDICTION).write_text(json.dumps({"format": FORMAT, "weak": rows, "strong": rows} | changes))
    return folder


def test_the_gap_is_measured_less_predicted(tmp_path: Path) -> None:
    measured = scaling([steady(1, 10.0), steady(2, 17.0)])

    of = {each.accelerators: each for each in read_prediction(predicted(tmp_path), measured)}

    assert of[2].efficiency == pytest.approx(0.9) and of[2].gap == pytest.approx(-5.0)
    assert of[4].efficiency == pytest.approx(0.8) and of[4].gap is None


def test_the_evaluation_counts_as_in_the_measured_runs(tmp_path: Path) -> None:
    one = a_point(1, [1.0, 0, 0, 0, 0, 0, 0.5])
    measured = scaling([one, a_point(2, [1.0, 0, 0, 0, 0, 0, 0.5])], Fraction(1))

    of = {each.accelerators: each for each in read_prediction(predicted(tmp_path), measured)}

    assert of[2].efficiency == pytest.approx(1.5 / (1 / 0.9 + 0.5))


def test_a_prediction_begins_at_the_fewest_accelerators(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="begins with the fewest measured accelerators, 3"):
        read_prediction(predicted(tmp_path), scaling([steady(3, 10.0), steady(6, 17.0)]))


@pytest.mark.parametrize("changes", [{"format": "another"}, {"weak": None}, {"weak": [{"accelerators": 1}]}])
def test_another_prediction_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(BadConfiguration, match=f"of the format {FORMAT}, but found"):
        read_prediction(predicted(tmp_path, **changes), scaling([steady(1, 10.0), steady(2, 17.0)]))


def test_a_missing_prediction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match="which is not there: name the folder"):
        read_prediction(tmp_path, scaling([steady(1, 10.0), steady(2, 17.0)]))
    with pytest.raises(CannotCompare, match="--predicted cannot be combined with --by a"):
        study([steady(1, 10.0)], by="a", predicted=tmp_path)


def test_points_alone_have_serial_fraction_batch_curve_and_page(tmp_path: Path) -> None:
    """Steps by S = 100·(1 + 1000/B), and the figures of Ying et al."""
    rates = {1: 1332, 4: 5328, 16: 21312, 1024: 1.05e6}
    batches = [f"Ying,{n},{32 * n},{rate},{round(100 * (1 + 1000 / (32 * n)))}" for n, rate in rates.items()]
    path = points_file(tmp_path, *batches, "one,1,32,10,")
    found = study([], reported=path)
    first, *_, last, other = found.reported

    assert first.serial_fraction is None and other.serial_fraction is None
    assert last.efficiency is not None and last.serial_fraction is not None
    assert last.serial_fraction == pytest.approx((1 / (1024 * last.efficiency) - 1 / 1024) / (1 - 1 / 1024))
    assert found.reported_curves.keys() == {"Ying"}
    curve = found.reported_curves["Ying"]
    assert (curve.least_steps, curve.critical_batch) == pytest.approx((100, 1000), rel=0.02)

    assert main(["scale", "--points", str(path), "--out", str(tmp_path / "page")]) == 0
    page = (tmp_path / "page" / "scale.html").read_text()
    assert page.count("<figure") == 1 and "S = 100" in page and "runs," not in page


@pytest.mark.parametrize("words", [[], ["--by", "trainer.ranks"], ["--points", "p.csv", "--by", "trainer.ranks"]])
def test_scale_without_runs_takes_points_alone(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", *words]) == 2
    assert "scale needs a RUN" in capsys.readouterr().err
