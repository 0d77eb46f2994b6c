"""Facts of a run from its journal: each used value is judged and reported with its line."""

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
from aiperf.journal.events import (
    AnyEvent,
    RunEnded,
    RunResumed,
    RunStarted,
    TrialFailed,
    TrialLost,
    TrialRejected,
    WorkerLost,
    WorkerShape,
)
from aiperf.journal.first_line import config_hash
from aiperf.journal.journal import read
from aiperf.journal.options import flat_options
from aiperf.planning.plan import first_event, make_plan
from aiperf.ranking.breaches import RuleViolation, breaches
from aiperf.ranking.division import division
from aiperf.report.candidate import candidate_of
from morphism import encode, start
from tests.builders.journal import begun, joined, proposed, requested
from tests.ranking.test_ranking import having
from tests.rigs.user import write_run

SHAPE = WorkerShape(source="a test", device="a processor", accelerators=0, ranks=2, cores=2, memory_bytes=4 << 30)
NOT_OF_THE_PROCEDURE = {
    "cluster": "the machines show where a run was, and RunStarted.simulated whether it was simulated",
    "resume": "a resumed run has a line of its own",
    "resume_until": "a run that was rolled back has a line of its own",
    "start": "the graph itself is in the line, and judged",
    "limits.silence_seconds": "60 s or more",
    "trainer.precision": "what was asked for; each attempt says what it had",
}


@cache
def first_line() -> RunStarted:
    """That of a default run."""
    return first_event(make_plan(configure([]), SHAPE), "quick", 1_795_262_400.0)


def found(*events: AnyEvent) -> dict[str, RuleViolation]:
    """Return the breaches of the division quick in a run of these lines, by rule."""
    return {breach.id: breach for breach in breaches(candidate_of(events), division("quick"))}


def changed(option: str, value: Any) -> RunStarted:
    """Return a carefully forged first line, with a valid hash and without contradictions."""
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
    """Return each option of a first line that the division does not leave free."""
    free = division("quick").free
    return [
        option
        for option in flat_options(first_line().config)
        if option not in free and option.partition(".")[0] not in free
    ]


def test_first_line_of_a_default_run_breaks_no_rule() -> None:
    assert set(found(first_line(), RunEnded(at=180.0, reason="duration"))) == {"precision", "error"}


@pytest.mark.parametrize("option", of_the_procedure())
def test_each_changed_procedure_value_breaks_a_rule(option: str, tmp_path: Path) -> None:
    line = changed(option, other(flat_options(first_line().config)[option]))
    run = write_run(tmp_path / "run", [line, RunEnded(at=line.duration_seconds, reason="duration")])

    try:
        broken = set(found(*read(run))) - {"precision", "error"}
    except AiperfError as refused:
        broken = {str(refused)}

    assert broken or option in NOT_OF_THE_PROCEDURE, option


@pytest.mark.parametrize(
    "name", ["name", "training_images", "validation_images", "classes", "image", "channels", "noise"]
)
def test_each_changed_image_count_in_a_first_line_breaks_a_rule(name: str) -> None:
    images = {**first_line().dataset, name: other(first_line().dataset[name])}

    broken = found(msgspec.structs.replace(first_line(), dataset=images))

    assert broken["data-set"].line == 1


def test_another_start_breaks_a_rule_for_any_configuration() -> None:
    graph = json.loads(encode(start("resnet20", image=8, channels=1, classes=10)))

    broken = found(msgspec.structs.replace(first_line(), start_graph=graph))

    assert (broken["start"].found, broken["start"].line) == ("resnet20", 1)


def test_a_wrong_space_is_reported_entry_by_entry() -> None:
    broken = found(changed("space.largest_batch_size", 999))

    assert broken["space"].found == "space.largest_batch_size is 999, expected 128"


def test_space_is_unknown_without_worker_shape_in_first_line() -> None:
    broken = found(msgspec.structs.replace(first_line(), shape=None))

    assert broken["space"].is_unknown


LATER: dict[str, tuple[str, Callable[[], list[AnyEvent]]]] = {
    "a lost worker": ("undisturbed", lambda: [joined(), WorkerLost(at=9.0, worker=0, reason="gone")]),
    "a resume": (
        "one-go",
        lambda: [
            joined(),
            RunResumed(schema=1, at=9.0, down_seconds=8.0, clock_stepped_back_seconds=0.0, versions={}, machine={}),
        ],
    ),
    "an end": ("length", lambda: [joined(), RunEnded(at=9.0, reason="interrupted")]),
}


@pytest.mark.parametrize("what", LATER)
def test_an_outcome_is_reported_with_its_journal_line(what: str) -> None:
    rule, lines = LATER[what]

    assert found(first_line(), *lines())[rule].line == 3


def test_attempts_lost_alone_and_with_their_worker_are_counted() -> None:
    events = [
        first_line(),
        *(joined(worker=number) for number in range(3)),
        *(
            each
            for number in range(3)
            for each in (requested(number, number), proposed(number), begun(number, 1.0, worker=number))
        ),
        TrialLost(at=5.0, trial=0, attempt=1, reason="its rank was killed"),
        WorkerLost(at=6.0, worker=1, reason="gone"),
        WorkerLost(at=7.0, worker=2, reason="a better place", cause="released"),
        TrialFailed(at=8.0, trial=0, reason="lost too often"),
    ]

    run = candidate_of(events)

    assert (run.attempts_lost, run.attempts, run.trials_given_up, run.trials_settled) == (2, 3, 1, 1)
    assert run.ended_early == 2, "a trial that fails after a lost attempt counts once"
    assert "ended-early" in found(*events)


def test_lost_and_diverged_trials_are_counted_together() -> None:
    """At most 5 % of each would have let a run end 10 % of its trials, the slow ones."""
    numbers = range(60)
    events = [
        first_line(),
        *(joined(worker=number) for number in numbers),
        *(each for at in numbers for each in (requested(at, at), proposed(at), begun(at, 1.0, worker=at))),
        *(TrialLost(at=5.0, trial=trial, attempt=1, reason="its rank was killed") for trial in (0, 1)),
        TrialFailed(at=6.0, trial=2, reason="the loss is not finite", cause="divergence"),
    ]

    more = TrialFailed(at=7.0, trial=3, reason="no batch fits", cause="memory")

    assert candidate_of(events).ended_early == 3 and "ended-early" not in found(*events)
    assert found(*events, more)["ended-early"].found.startswith("6.7 %, attempts lost: 2 of 60")


def test_a_proposal_that_ends_while_its_worker_lives_is_counted() -> None:
    """A site could kill generators until a network pleases. A generator that dies with its node is no choice."""
    events: list[AnyEvent] = [
        first_line(),
        *(joined(worker=worker) for worker in range(3)),
        *(requested(at, at % 3) for at in range(6)),
    ]
    events += [TrialRejected(at=100.0, number=number, by="generator", reason="it was killed") for number in range(4)]
    events.append(TrialRejected(at=100.0, number=4, by="check", reason="too large"))

    def ended(*lost: AnyEvent) -> int:
        return candidate_of([*events, *lost]).proposals_ended

    assert (ended(), candidate_of(events).proposals_requested) == (4, 6)
    assert ended(WorkerLost(at=110.0, worker=0, reason="its node is down")) == 2
    assert ended(WorkerLost(at=200.0, worker=0, reason="much later")) == 4


@pytest.mark.parametrize(
    ("each", "workers", "found"),
    [
        (None, [("a", 8), ("b", 8)], "node"),
        (None, [("a", 4), ("a", 4)], "another"),
        (None, [("a", 1), ("b", 1)], "accelerator"),
        (None, [], "node"),
        (1, [("a", 1), ("a", 1)], "accelerator"),
        (2, [("a", 2), ("b", 2)], "another"),
        ("all", [("a", 16)], "another"),
    ],
)
def test_a_worker_has_one_accelerator_or_all_of_a_node(each: Any, workers: list[tuple[str, int]], found: str) -> None:
    lines: list[AnyEvent] = [changed("accelerators_per_worker", each)]
    lines += [joined(worker=at, host=host, ranks=ranks) for at, (host, ranks) in enumerate(workers)]

    assert candidate_of(lines).worker_class == found


@pytest.mark.parametrize("named", [None, "none", 7, "f" * 63])
def test_a_configuration_without_an_id_names_no_announcement(named: Any) -> None:
    assert candidate_of([changed("announcement", named)]).seed_source == "no announcement"


def test_the_seed_that_follows_is_recognised() -> None:
    line = changed("announcement", "0000002a" + 56 * "f")

    assert candidate_of([line]).seed_source == "another seed"
    drawn = msgspec.structs.replace(line, nonce="nonce")
    assert candidate_of([msgspec.structs.replace(line, seed=42)]).seed_source == "announcer"
    assert candidate_of([msgspec.structs.replace(drawn, seed=42)]).seed_source == "another seed"
    assert candidate_of([msgspec.structs.replace(drawn, seed=1775509038)]).seed_source == "announcement"


def test_a_worker_that_was_let_go_is_no_loss() -> None:
    gone = partial(WorkerLost, at=9.0, worker=0, reason="a better place")

    assert "undisturbed" in found(first_line(), joined(), gone())
    assert "undisturbed" not in found(first_line(), joined(), gone(cause="released"))
