"""A driver with options for an existing run accepts equal options and names other ones in its error."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from aiperf.cli import run
from aiperf.cli.run import differences
from aiperf.config import RunConf, as_plain, configure, from_plain
from aiperf.planning.plan import first_event, make_plan
from aiperf.planning.worker_shape import this_machine
from tests.rigs.user import User, write_run

WORDS = {
    "schedule": ["schedule=quick", "schedule=ranking"],
    "schedule.duration_seconds": ["schedule.duration_seconds=600", "schedule.duration_seconds=700"],
    "seed": ["seed=1", "seed=2"],
    "name": ["name=a", "name=b"],
    "dataset": ["dataset=digits", "dataset=synthetic"],
    "searcher": ["searcher=random", "searcher=evolution"],
    "cluster": ["+cluster=slurm", "+cluster=ray"],
    "batch.largest": ["batch.largest=128", "batch.largest=null"],
    "trainer.decay_epochs": ["trainer.decay_epochs=7", "trainer.decay_epochs=null"],
}
"""Options with two values each. A value equal to the default is given explicitly."""


@cache
def configured(*words: str) -> RunConf:
    return configure(words)


def held_by(*words: str) -> dict[str, Any]:
    """A configuration as a journal gives it back."""
    return as_plain(from_plain(json.loads(json.dumps(as_plain(configured(*words))))))


def refused(words: list[str], journal: list[str]) -> list[str]:
    return differences(words, as_plain(configured(*words)), held_by(*journal))


def test_a_repeated_or_empty_command_has_no_difference() -> None:
    for number in (0, 1):
        words = [values[number] for values in WORDS.values()]

        assert refused(words, words) == []
        assert refused([], words) == []


@pytest.mark.parametrize("option", WORDS)
def test_each_option_that_is_given_another_value_is_named(option: str) -> None:
    one, other = WORDS[option]

    named = refused([other], [one])

    assert named and all(each.startswith(option) for each in named), named


def test_a_difference_is_reported_with_both_values() -> None:
    assert refused(["schedule.duration_seconds=700"], ["schedule.duration_seconds=600"]) == [
        "schedule.duration_seconds=600, not 700"
    ]
    assert refused(["+cluster=slurm"], []) == ["cluster=null, not slurm"]
    assert refused(["+cluster=slurm", "cluster.nodes=2"], ["+cluster=slurm", "cluster.nodes=4"]) == [
        "cluster.nodes=4, not 2"
    ]


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Return the folder of a run with the first line of its journal."""
    conf = configure(["executor=inline", "seed=5", "schedule.duration_seconds=600"])
    return write_run(tmp_path / "runs" / "begun", [first_event(make_plan(conf, this_machine(conf)), "begun", 1e6)])


def test_a_driver_refuses_other_options_and_changes_nothing(aiperf: User, begun: Path) -> None:
    before = {path: path.read_bytes() for path in begun.iterdir()}

    answer = aiperf("drive", str(begun), "executor=inline", "seed=6", "schedule.duration_seconds=700")

    assert answer.status == 2
    assert "a run keeps the configuration it began with" in answer.err
    assert "schedule.duration_seconds=600, not 700; seed=5, not 6: leave these options out" in answer.err
    assert {path: path.read_bytes() for path in begun.iterdir()} == before


@pytest.mark.parametrize("words", [(), ("executor=inline", "seed=5", "schedule.duration_seconds=600")])
def test_a_driver_that_is_given_the_same_options_or_none_goes_on(
    aiperf: User, begun: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    driven: list[Path] = []

    def drive(conf: RunConf, begin: object, folder: Path) -> int:
        driven.append(folder)
        return 0

    monkeypatch.setattr(run, "_drive", drive)

    assert aiperf("drive", str(begun), *words).status == 0

    assert driven == [begun]


def test_a_driver_begins_no_dry_run(aiperf: User, tmp_path: Path) -> None:
    answer = aiperf("drive", str(tmp_path), "dry_run=true")

    assert answer.status == 2 and "cannot be combined with dry_run or resume" in answer.err
