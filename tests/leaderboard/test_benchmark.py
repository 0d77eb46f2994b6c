"""Benchmarks of runs: equal configurations share one on any machine, and each other option makes another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aiperf.journal.events import FollowedRun
from aiperf.journal.journal import read
from aiperf.leaderboard.benchmark import benchmark_of, differing, title
from aiperf.report.facts import Report
from aiperf.report.gather import gather
from tests.builders.listed_runs import simulated

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
        {"storage__journal": "local:/removed"},
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


def test_a_missing_option_equals_no_value(report: Report) -> None:
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
def test_other_data_start_length_or_kind_is_another_benchmark(report: Report, facts: dict[str, Any]) -> None:
    other = replace(report, run=replace(report.run, **facts))

    assert benchmark_of(other) != benchmark_of(report)
    if "follows" in facts:
        assert title(benchmark_of(other)).endswith("following earlier (dddddddddddd)")


def ranked(report: Report, seconds: float = 43_200.0, contents: str = "a" * 64) -> Report:
    images = {"name": "imagenet", "fingerprint": "of folders or of shards", "contents": contents}
    run = replace(report.run, duration_seconds=seconds, dataset=images)
    return having(replace(report, divisions=("ranking",), run=run), dataset__root="images")


def test_ranked_runs_of_one_length_and_files_are_one_benchmark(report: Report) -> None:
    found = benchmark_of(ranked(report))

    assert found == benchmark_of(ranked(having(report, seed=7)))
    assert title(found).startswith("Division ranking, 12 h 00 min, one accelerator a worker: ")


def test_other_length_class_or_files_are_another_benchmark(report: Report) -> None:
    benchmarks = [
        benchmark_of(each) for each in (ranked(report), ranked(report, 7200.0), ranked(report, 7200.0, "b" * 64))
    ]

    assert len({*benchmarks, benchmark_of(replace(ranked(report), worker_class="node"))}) == 4
    assert differing(benchmarks)[benchmarks[2]] == (("files", "b" * 64),)


def test_other_files_of_the_same_counts_are_another_benchmark(report: Report) -> None:
    files = [
        having(
            replace(report, run=replace(report.run, dataset={"name": "images", "fingerprint": each})), dataset__root="x"
        )
        for each in ("a", "b")
    ]

    assert benchmark_of(files[0]) != benchmark_of(files[1])


def test_no_simulated_run_keeps_the_rules_of_a_division(tmp_path: Path) -> None:
    assert gather(read(simulated(tmp_path / "run", "run"))).divisions == ()


WORKLOAD = {"name": "hpc_ai500_ic", "target_quality": 0.763, "exponent": 5}


@pytest.mark.parametrize(
    ("options", "is_same"),
    [
        ({"batch__default": 128, "trainer__learning_rate": 0.2, "trainer__momentum": 0.5}, True),
        ({"schedule__duration_seconds": 1e6}, True),
        ({"benchmark": WORKLOAD | {"target_quality": 0.5}}, False),
        ({"benchmark": WORKLOAD | {"exponent": 10}}, False),
        ({"schedule__epochs": [50]}, False),
        ({"start": "resnet20"}, False),
    ],
)
def test_fixed_networks_share_an_order_by_their_workload(
    report: Report, options: dict[str, Any], is_same: bool
) -> None:
    """Hyperparameters may differ: the quality shows their effect."""
    fixed = having(report, benchmark=WORKLOAD)

    assert (benchmark_of(having(fixed, **options)) == benchmark_of(fixed)) == is_same
