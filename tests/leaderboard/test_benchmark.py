"""Which runs are of one benchmark: equal configurations are, whatever machine they ran on; any other option makes another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiperf.journal.events import FollowedRun
from aiperf.journal.journal import read
from aiperf.leaderboard.benchmark import benchmark_of, of_division, title
from aiperf.report.facts import Report
from aiperf.report.gather import gather
from tests.leaderboard.runs import simulated

FOLLOWED = FollowedRun(
    run="earlier", path="runs/earlier", lines=900, last_hash="d" * 64, trials=9, left_out={}, ranks=2
)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return gather(read(simulated(tmp_path_factory.mktemp("runs") / "run", "run")))


def having(report: Report, **options: Any) -> Report:
    """The same run with other options: `trainer__ranks=2`."""
    config = {name: dict(part) if isinstance(part, dict) else part for name, part in report.run.config.items()}
    for option, value in options.items():
        part, _, name = option.partition("__")
        if name:
            config[part][name] = value
        else:
            config[part] = value
    return replace(report, run=replace(report.run, config=config))


@pytest.mark.parametrize(
    "options",
    [
        {"seed": 7},
        {"trainer__threads": 3},
        {"cluster__workers": 64},
        {"trainer__precision": "bf16"},
        {"space__largest_batch_size": 4096},
        {"preflight__most_excluded": 0.05},
        {"system": {"name": "Frontier"}},
        {"announcement": "a" * 64},
        {"runs": "/elsewhere"},
    ],
)
def test_where_and_when_a_run_was_makes_no_other_benchmark(report: Report, options: dict[str, Any]) -> None:
    assert benchmark_of(having(report, **options)) == benchmark_of(report)


@pytest.mark.parametrize(
    "options",
    [
        {"trainer__learning_rate": 0.2},
        {"schedule__patience": 1},
        {"searcher__name": "morphism"},
        {"hpo__name": "tpe"},
        {"budget__factor": 5.0},
        {"an_option_of_a_later_release": 1},
    ],
)
def test_any_other_option_makes_another_benchmark(report: Report, options: dict[str, Any]) -> None:
    assert benchmark_of(having(report, **options)) != benchmark_of(report)


def test_an_option_that_a_journal_does_not_tell_agrees_with_no_value_of_it(report: Report) -> None:
    config = dict(report.run.config)
    del config["limits"]

    assert benchmark_of(replace(report, run=replace(report.run, config=config))) != benchmark_of(report)


@pytest.mark.parametrize(
    "facts",
    [
        {"start_fingerprint": "another"},
        {"duration_seconds": 240.0},
        {"warmup_seconds": 30.0},
        {"dataset": {"name": "synthetic", "training_images": 401, "classes": 10}},
        {"is_simulated": False},
        {"follows": FOLLOWED},
    ],
)
def test_other_data_start_length_or_kind_of_run_makes_another_benchmark(report: Report, facts: dict[str, Any]) -> None:
    other = replace(report, run=replace(report.run, **facts))

    assert benchmark_of(other) != benchmark_of(report)
    if "follows" in facts:
        assert title(benchmark_of(other)).endswith("following earlier (dddddddddddd)")


def test_runs_that_break_no_rule_of_a_division_are_of_one_benchmark_whatever_their_length(report: Report) -> None:
    found = [
        benchmark_of(replace(report, divisions=("ranking",), run=replace(report.run, duration_seconds=seconds)))
        for seconds in (7200.0, 43200.0)
    ]

    assert found == [of_division("ranking")] * 2
    assert title(found[0]).startswith("Division ranking: ")


def test_no_simulated_run_keeps_the_rules_of_a_division(tmp_path: Path) -> None:
    assert gather(read(simulated(tmp_path / "run", "run"))).divisions == ()
