"""A predicted score in the journal of the run: where it is written, what is refused, and what `verify` finds."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiperf.config import RunConf, as_plain
from aiperf.drive.session import _sealed_prediction
from aiperf.errors import BadConfiguration, JournalDamaged
from aiperf.journal.events import NodeChecked, RunStarted, ScorePredicted
from aiperf.journal.first_line import config_hash
from aiperf.journal.journal import NAME, Journal, read
from aiperf.statistics.predicted_score import FORMAT, ScorePrediction, as_json, node_kinds, release
from aiperf.verify.verification import read_lines
from tests.simulate.test_session import configured, journal


def prediction_of(conf: RunConf, **changes: Any) -> dict[str, Any]:
    config = json.loads(json.dumps(as_plain(conf)))
    made = ScorePrediction(
        FORMAT, release(), (), "runs/pilot", "0" * 64, 3, False, config, {}, (1e9, 2e9, 3e9), {"training": 1.0}
    )  # fmt: skip
    return as_json(replace(made, **changes))


def sealed(conf: RunConf, content: object, folder: Path, checks: tuple[NodeChecked, ...] = ()) -> list[ScorePredicted]:
    path = folder / "prediction.json"
    path.write_text(json.dumps(content))
    return _sealed_prediction(replace(conf, predict=str(path)), checks)


def test_prediction_of_the_run_becomes_one_event(tmp_path: Path) -> None:
    conf = configured(seed=3)
    content = prediction_of(conf)

    (event,) = sealed(replace(conf, seed=4, name="other", runs="elsewhere"), content, tmp_path)
    assert event.prediction == content
    assert _sealed_prediction(conf, ()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"release": "0.0.1"}, "differs in release: predict again"),
        ({"nodes": ("a" * 64,)}, r"differs in node 1 \(a+, here not there\): predict again"),
        ({"workers": 4}, "workers is 4, but the other fields give 3: predict again"),
    ],
)
def test_foreign_prediction_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    conf = configured()

    with pytest.raises(BadConfiguration, match=words):
        sealed(conf, prediction_of(conf, **changes), tmp_path)


def test_prediction_for_other_options_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"differs in schedule.duration_seconds: predict again"):
        sealed(configured(hours=2.0), prediction_of(configured(hours=1.0)), tmp_path)


def test_file_that_is_no_prediction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfiguration, match=r"format 1 or 2, but found .*Object missing required field"):
        sealed(configured(), {"format": 2}, tmp_path)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the events of a run of half an hour, with a prediction after the first line."""
    conf = configured(hours=0.5)
    first, *rest = read(journal(conf, tmp_path_factory.mktemp("run") / NAME))
    assert isinstance(first, RunStarted)
    config = {**first.config, "predict": "prediction.json"}
    first = replaced(first, config=config, config_hash=config_hash(config))
    # A request holds the number of lines before it.
    moved = [replaced(each, position=each.position + 1) if hasattr(each, "position") else each for each in rest]
    return [first, ScorePredicted(at=0.0, prediction=prediction_of(conf)), *moved]


def replaced(event: Any, **changes: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(event, **changes)


def written(lines: list[Any], folder: Path) -> Path:
    with Journal(folder / NAME) as log:
        log.append(lines)
    return folder / NAME


def contradictions(path: Path) -> list[str]:
    found = next(each for each in read_lines(path).checked if each.name == "predicted score")
    return [finding.found for finding in found.findings]


def test_sealed_prediction_has_no_contradiction(lines: list[Any], tmp_path: Path) -> None:
    assert contradictions(written(lines, tmp_path)) == []


ALTERED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "score": (
        lambda content: content.update(score=5e9),
        "score is 5000000000.0, but the other fields give 2000000000.0",
    ),
    "interval": (lambda content: content["interval"].__setitem__(0, 1.0), "interval is [1.0,"),
    "foreign options": (lambda content: content["config"].update(start="resnet20"), "other options: start"),
    "foreign nodes": (lambda content: content.update(nodes=["b" * 64]), "other nodes"),
    "workers": (lambda content: content.update(workers=8), "workers is 8, but the other fields give 3"),
    "shares": (lambda content: content["shares"].update(training=0.9), "digest is"),
    "source": (lambda content: content.update(source="runs/other"), "digest is"),
    "hash of the source": (lambda content: content.update(source_hash="1" * 64), "digest is"),
}


@pytest.mark.parametrize("name", ALTERED)
def test_altered_or_foreign_prediction_is_found(name: str, lines: list[Any], tmp_path: Path) -> None:
    alter, words = ALTERED[name]
    content = copy.deepcopy(lines[1].prediction)
    alter(content)

    found = contradictions(written([lines[0], replaced(lines[1], prediction=content), *lines[2:]], tmp_path))
    assert any(words in each for each in found)


CHECKED: dict[str, Any] = {"at": 0.0, "address": "n1", "host": "n1", "faults": [], "notes": [], "excluded": False}


@pytest.mark.parametrize("earlier", [False, True])
def test_nodes_of_the_prediction_are_those_of_the_run(earlier: bool, lines: list[Any], tmp_path: Path) -> None:
    """An earlier release wrote hashes of descriptions."""
    described: dict[str, Any] = {"processors": {"cores": 64}, "memory": {"swappiness": 60}}
    check = NodeChecked(readings={"system": {"facts": {"hash": "a" * 64, "description": described}}}, **CHECKED)
    kinds = ("a" * 64,) if earlier else node_kinds([check])
    content = prediction_of(configured(hours=0.5), nodes=kinds, format=1 if earlier else FORMAT)
    moved = [replaced(each, position=each.position + 1) if hasattr(each, "position") else each for each in lines[2:]]
    event = replaced(lines[1], prediction=content)

    assert contradictions(written([lines[0], check, event, *moved], tmp_path)) == []
    described["processors"]["cores"], described["memory"]["swappiness"] = 32, 10
    (tmp_path / "other").mkdir()
    (found,) = contradictions(written([lines[0], check, event, *moved], tmp_path / "other")) or [""]
    assert earlier or found.endswith("node 1.processors.cores (64, here 32)")


def test_missing_prediction_is_found(lines: list[Any], tmp_path: Path) -> None:
    rest = [replaced(each, position=each.position - 1) if hasattr(each, "position") else each for each in lines[2:]]

    assert contradictions(written([lines[0], *rest], tmp_path)) == ["0 of 1 predictions were examined"]


def test_moved_or_duplicated_prediction_is_refused(lines: list[Any], tmp_path: Path) -> None:
    first, made, *rest = lines
    joined = next(index for index, each in enumerate(rest) if type(each).__name__ == "WorkerJoined") + 1
    moved = [first, *rest[:joined], replaced(made, at=rest[joined - 1].at)]
    for number, wrong in enumerate(([first, made, made], moved)):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(JournalDamaged, match="a score must be predicted"):
            list(read(written(wrong, tmp_path / str(number))))
