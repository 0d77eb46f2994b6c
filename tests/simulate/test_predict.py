"""Prediction of a score from the profile of a run, and its repetition to the last digit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiperf.__main__ import main as command_line
from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.errors import BadConfiguration
from aiperf.journal.journal import NAME, read
from aiperf.simulate.study.predict import SEEDS, again, predict
from aiperf.statistics.predicted_score import ScorePrediction, as_json
from tests.simulate.test_session import as_if_real, configured, journal


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run with known truth, as a real run would leave it."""
    folder = tmp_path_factory.mktemp("runs")
    conf = configured(seed=3, hours=0.75, flops=2e13, step_seconds=0.05, compile_seconds=120.0, overlap=0.0)
    return as_if_real(journal(conf, folder / "simulated.jsonl"), folder / "real")


@pytest.fixture(scope="module")
def predicted(real: Path) -> ScorePrediction:
    return predict(str(real), str(real.parent), None, None)


def test_interval_contains_the_score_of_the_profiles_run(real: Path, predicted: ScorePrediction) -> None:
    measured = score(work_log(read(real / NAME))).flops_per_second
    low, high = predicted.interval

    assert measured is not None
    assert low <= measured <= high
    assert predicted.score == pytest.approx(measured, rel=0.1)
    assert len(predicted.scores) == SEEDS
    assert sum(predicted.shares.values()) == pytest.approx(1)
    assert predicted.shares["communication"] > 0.01
    assert (predicted.workers, predicted.is_extrapolated) == (3, False)


def test_prediction_is_repeated_to_the_last_digit(predicted: ScorePrediction, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(as_json(predicted)))

    repeated, is_equal = again(tmp_path / "p.json")
    assert is_equal
    assert repeated.scores == predicted.scores
    assert command_line(["predict", "--again", str(tmp_path / "p.json")]) == 0


def test_altered_prediction_is_found(predicted: ScorePrediction, tmp_path: Path) -> None:
    content = json.loads(json.dumps(as_json(predicted)))
    content["scores"][0] *= 1 + 1e-15
    (tmp_path / "p.json").write_text(json.dumps(content))

    assert again(tmp_path / "p.json")[1] is False


def test_verb_writes_the_prediction_it_prints(
    real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiperf.simulate.study.predict.SEEDS", 2)

    words = ["predict", "--from", str(real), "--workers", "6", "--out", str(tmp_path / "p.json"), "--json"]
    assert command_line(words) == 0
    printed = json.loads(capsys.readouterr().out)

    assert json.loads((tmp_path / "p.json").read_text()) == printed
    assert printed["is_extrapolated"]
    assert printed["workers"] == 6
    assert printed["source"] == "real"
    assert len(printed["source_hash"]) == 64


def test_profile_of_a_simulated_run_is_refused(tmp_path: Path) -> None:
    path = journal(configured(hours=0.5), tmp_path / NAME)

    with pytest.raises(BadConfiguration, match="is simulated: name a run that trained"):
        predict(str(path.parent), "runs", None, None)


@pytest.mark.parametrize("content", ["no json", "[]", '{"format": 1}'])
def test_file_without_a_prediction_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(content)

    with pytest.raises(BadConfiguration, match=r"p\.json"):
        again(tmp_path / "p.json")


def test_again_takes_no_other_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["predict", "--again", "p.json", "seed=3"]) == 2
    assert "--again cannot be combined with seed=3" in capsys.readouterr().err
