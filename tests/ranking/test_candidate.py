"""From a journal to what the rules look at: each value that a run's first line really used is judged, and its line is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiperf.config import configure
from aiperf.errors import AiperfError
from aiperf.journal.events import AnyEvent, RunEnded, RunResumed, RunStarted, WorkerLost, WorkerShape
from aiperf.journal.first_line import config_hash
from aiperf.journal.journal import read
from aiperf.planning.plan import first_event, make_plan
from aiperf.ranking.breaches import Breach, breaches, options
from aiperf.ranking.division import division
from aiperf.report.candidate import candidate_of
from morphism import encode, start
from tests.cli.user import write_run
from tests.journals import joined
from tests.ranking.test_ranking import having

SHAPE = WorkerShape(source="a test", device="a processor", accelerators=0, ranks=2, cores=2, memory_bytes=4 << 30)
NOT_OF_THE_PROCEDURE = {
    "schedule.stop": "a run that it ended says so in its last line, which the rule of the length reads",
    "cluster": "where a run was is told by its machines; that it was simulated by RunStarted.simulated",
    "resume": "a resumed run has a line of its own",
    "resume_until": "a run that was rolled back has a line of its own",
    "start": "the graph itself is in the line, and judged",
    "trainer.precision": "what was asked for; each attempt says what it had",
}


@cache
def first_line() -> RunStarted:
    """That of a default run."""
    return first_event(make_plan(configure([]), SHAPE), "quick", 1_795_262_400.0)


def found(*events: AnyEvent) -> dict[str, Breach]:
    """What the rules of the quick division find in a run of these lines, by rule."""
    return {breach.id: breach for breach in breaches(candidate_of(events), division("quick"))}


def changed(option: str, value: Any) -> RunStarted:
    """The first line as whoever forges it with care would write it: its hash is its own, and it says nothing twice."""
    config = having(first_line().config, option, value)
    part, _, name = option.partition(".")
    also = {name: value} if part == "schedule" and name in ("duration_seconds", "warmup_seconds") else {}
    return msgspec.structs.replace(first_line(), config=config, config_hash=config_hash(config), **also)


def other(value: Any) -> Any:
    match value:
        case None | bool():
            return 64 if value is None else not value
        case int() | float():
            return value * 2 + 1
        case list():
            return [*value[:-1], value[-1] + 1]
        case _:
            return f"{value}-2"


def of_the_procedure() -> list[str]:
    """Every option that a first line holds, but those that may be as they like."""
    free = division("quick").free
    return [
        option for option in options(first_line().config) if option not in free and option.partition(".")[0] not in free
    ]


def test_the_first_line_of_a_default_run_breaks_nothing_of_what_it_can_tell() -> None:
    assert set(found(first_line(), RunEnded(at=180.0, reason="duration"))) == {"precision", "error"}


@pytest.mark.parametrize("option", of_the_procedure())
def test_each_value_of_the_procedure_that_is_changed_in_a_journals_first_line_breaks_a_rule(
    option: str, tmp_path: Path
) -> None:
    line = changed(option, other(options(first_line().config)[option]))
    run = write_run(tmp_path / "run", [line, RunEnded(at=line.duration_seconds, reason="duration")])

    try:
        broken = set(found(*read(run))) - {"precision", "error"}
    except AiperfError as refused:
        broken = {str(refused)}

    assert broken or option in NOT_OF_THE_PROCEDURE, option


@pytest.mark.parametrize(
    "name", ["name", "training_images", "validation_images", "classes", "image", "channels", "noise"]
)
def test_each_number_of_the_images_that_is_changed_in_the_first_line_breaks_a_rule(name: str) -> None:
    images = {**first_line().dataset, name: other(first_line().dataset[name])}

    broken = found(msgspec.structs.replace(first_line(), dataset=images))

    assert broken["data-set"].line == 1


def test_another_starting_graph_in_the_first_line_breaks_a_rule_whatever_the_configuration_says() -> None:
    graph = json.loads(encode(start("resnet20", image=8, channels=1, classes=10)))

    broken = found(msgspec.structs.replace(first_line(), start_graph=graph))

    assert (broken["start"].found, broken["start"].line) == ("resnet20", 1)


def test_a_space_that_does_not_follow_is_told_entry_by_entry_with_what_follows() -> None:
    broken = found(changed("space.largest_batch_size", 999))

    assert broken["space"].found == "space.largest_batch_size is 999, and 128 follows"


def test_a_first_line_that_does_not_say_of_which_workers_it_was_made_leaves_the_space_unknown() -> None:
    broken = found(msgspec.structs.replace(first_line(), shape=None))

    assert broken["space"].is_unknown


LATER: dict[str, tuple[str, Callable[[], list[AnyEvent]]]] = {
    "a lost worker": ("undisturbed", lambda: [joined(), WorkerLost(at=9.0, worker=0, reason="gone")]),
    "a resume": (
        "one-go",
        lambda: [
            joined(),
            RunResumed(at=9.0, down_seconds=8.0, clock_stepped_back_seconds=0.0, versions={}, machine={}),
        ],
    ),
    "an end": ("length", lambda: [joined(), RunEnded(at=9.0, reason="interrupted")]),
}


@pytest.mark.parametrize("what", LATER)
def test_what_came_of_a_run_is_told_with_the_line_that_shows_it(what: str) -> None:
    rule, lines = LATER[what]

    assert found(first_line(), *lines())[rule].line == 3


def test_a_worker_that_was_let_go_is_no_loss() -> None:
    gone = partial(WorkerLost, at=9.0, worker=0, reason="a better place")

    assert "undisturbed" in found(first_line(), joined(), gone())
    assert "undisturbed" not in found(first_line(), joined(), gone(released=True))
