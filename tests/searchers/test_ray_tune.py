"""Laws of the search as Ray Tune sees it."""

import json
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from ray.tune.search import Searcher as TuneSearcher

from morphism import Budget, decode, decode_morph
from morphism.apply import apply
from searchers.history import Space
from searchers.ray_tune import DamagedSearch, MorphismSearch
from searchers.searcher_config import MorphismConf, TpeConf
from tests.builders.history import SMALL, space


def search(at: Space | None = None, mode: str = "max") -> MorphismSearch:
    return MorphismSearch(
        at or space(tuning_from_round=2),
        MorphismConf().build(),
        TpeConf().build(),
        seed=3,
        trials_per_round=4,
        metric="accuracy",
        mode=mode,
    )


def suggested(search: MorphismSearch, trials: int) -> list[dict[str, object]]:
    suggestions = []
    for number in range(trials):
        suggestion = search.suggest(f"t{number}")
        assert isinstance(suggestion, dict)
        suggestions.append(suggestion)
        if number % 5 == 4:
            search.on_trial_complete(f"t{number}", error=True)
        else:
            search.on_trial_complete(f"t{number}", {"accuracy": 0.5 + (number * 7 % 10) / 30})
    return suggestions


def test_a_suggestion_is_its_parent_with_its_morphs() -> None:
    suggestions = suggested(search(), 12)

    graphs = {f"t{number}": decode(str(suggestion["graph"])) for number, suggestion in enumerate(suggestions)}
    assert graphs["t0"] == SMALL
    for number, suggestion in enumerate(suggestions):
        parent = suggestion["parent"]
        graph = SMALL if parent is None else graphs[str(parent)]
        for morph in suggestion["morphs"]:  # type: ignore[attr-defined]
            graph, _ = apply(graph, decode_morph(morph))
        assert graph == graphs[f"t{number}"]
        json.dumps(suggestion)
    assert any(suggestion["parent"] for suggestion in suggestions)
    assert {suggestion["kernel_size"] for suggestion in suggestions[:4]} == {None}


def test_a_restored_search_suggests_the_same_networks(tmp_path: Path) -> None:
    saved = search()
    suggested(saved, 9)
    saved.suggest("in flight")
    saved.save(str(tmp_path / "search"))

    restored = search()
    restored.restore(str(tmp_path / "search"))

    assert restored.suggest("next") == saved.suggest("next")
    assert restored.history.accuracies == saved.history.accuracies
    restored.on_trial_complete("in flight", {"accuracy": 0.9})
    assert 9 in restored.history.accuracies


def test_it_survives_the_pickling_that_tune_does() -> None:
    one = search()
    suggested(one, 6)

    other = pickle.loads(pickle.dumps(one))

    assert other.suggest("next") == one.suggest("next")


def test_a_damaged_search_or_one_of_another_start_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "search"
    search().save(str(file))
    other = space(SMALL.__class__(SMALL.nodes[:-3] + SMALL.nodes[-3:]), Budget.of(SMALL))
    search(other).restore(str(file))

    file.write_text(file.read_text().replace(SMALL.fingerprint, "0" * 32))
    with pytest.raises(DamagedSearch, match="starting graph"):
        search().restore(str(file))
    file.write_text("no JSON")
    with pytest.raises(DamagedSearch, match="holds no saved search"):
        search().restore(str(file))
    file.write_text(
        json.dumps({"format": 1, "start": SMALL.fingerprint, "trials": {}, "observations": [{"kind": "Gossip"}]})
    )
    with pytest.raises(DamagedSearch, match="Gossip"):
        search().restore(str(file))


def test_mode_min_turns_an_error_into_an_accuracy() -> None:
    one = search(mode="min")
    one.suggest("a")

    one.on_trial_complete("a", {"accuracy": 0.25})

    assert one.history.accuracies == {0: 0.75}


def test_a_result_without_a_valid_metric_is_a_failure() -> None:
    one = search()
    for trial in "abc":
        one.suggest(trial)

    one.on_trial_complete("a", {})
    one.on_trial_complete("b", {"accuracy": float("nan")})
    one.on_trial_complete("stranger", {"accuracy": 0.5})

    assert set(one.history.in_flight) == {2}
    assert one.history.accuracies == {}
    with pytest.raises(ValueError, match="from 0 to 1"):
        one.on_trial_complete("c", {"accuracy": 71.0})


def test_a_search_that_has_nothing_left_ends() -> None:
    one = search(space(budget=Budget.of(SMALL, 1.0)))
    one.suggest("start")

    assert one.suggest("next") == TuneSearcher.FINISHED


def test_a_mode_that_tune_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="'max'"):
        search(mode="best")
    with pytest.raises(ValueError, match="at least 1"):
        MorphismSearch(space(), MorphismConf().build(), None, 0, 0, "accuracy", "max")


@pytest.fixture
def short_folder() -> Iterator[str]:
    # Ray's sockets lie in it, and a socket's path has at most 107 characters: pytest's own folders are too deep
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.mark.slow
def test_the_example_runs_on_a_real_ray_and_its_children_inherit(short_folder: str) -> None:
    example = Path(__file__).parents[2] / "examples" / "ray_tune_morphism.py"
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32), "RAY_TMPDIR": short_folder}

    result = subprocess.run(
        [sys.executable, str(example), "--trials", "5", "--epochs", "2"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=400,
    )

    assert result.returncode == 0, result.stderr[-3000:]
    trials = re.findall(r"^trial (\d+): (.+) \+ (.+): accuracy ([\d.]+)$", result.stdout, re.MULTILINE)
    assert [int(number) for number, *_ in trials] == [0, 1, 2, 3, 4]
    assert any(came.startswith("trial") for _, came, *_ in trials)
    best = re.search(r"^best accuracy ([\d.]+)$", result.stdout, re.MULTILINE)
    assert best and float(best[1]) > 0.8
