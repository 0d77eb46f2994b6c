"""Scaling of runs: laws of efficiency and lost points, published figures, and journals with planted times."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import CannotCompare
from aiperf.journal.events import AnyEvent, Interval, TrialPrepared, TrialStarted, WorkerJoined
from aiperf.page.terminal import parts_lines
from aiperf.scaling.efficiency import ScalingPair, karp_flatt, scaling
from aiperf.scaling.point import LINES, Point, point_of_events
from aiperf.scaling.scale_text import parts, scale_json, sentences, warnings
from aiperf.scaling.study import study
from tests.builders.journal import ended, evaluated, interval, one_trial, prepared
from tests.builders.scaling_point import a_point

IN, OUT = Fraction(1), Fraction(0)


def only_pair(*points: Point, evaluation: Fraction = OUT) -> ScalingPair:
    (pair,) = scaling(points, evaluation).pairs
    return pair


times = st.lists(st.floats(0.001, 1e6), min_size=7, max_size=7)


@given(times, times, st.sampled_from([OUT, IN, Fraction(1, 4)]), st.integers(2, 4096))
def test_lost_points_add_up_to_what_is_missing(
    one: list[float], many: list[float], evaluation: Fraction, size: int
) -> None:
    pair = only_pair(a_point(1, one), a_point(size, many), evaluation=evaluation)

    assert math.fsum(pair.points_lost.values()) == pytest.approx(100 * (1 - pair.efficiency), rel=1e-12, abs=1e-9)
    assert pair.speed_up == pytest.approx(size * pair.efficiency)
    assert (pair.points_lost["evaluation"] == 0) or evaluation > 0


@given(times, st.integers(2, 4096))
def test_equal_times_per_image_are_linear(seconds: list[float], size: int) -> None:
    pair = only_pair(a_point(1, seconds), a_point(size, seconds))

    assert pair.efficiency == pair.efficiency_with_evaluation == 1.0
    assert pair.speed_up == size and set(pair.points_lost.values()) == {0.0}
    assert pair.karp_flatt == pytest.approx(0, abs=1e-12)


@given(times, st.sampled_from(LINES[:6]), st.floats(0.1, 10))
def test_an_added_loss_is_lost_in_its_line_alone(seconds: list[float], line: str, added: float) -> None:
    slower = [each + added * (name == line) for name, each in zip(LINES, seconds, strict=True)]

    lost = only_pair(a_point(1, seconds), a_point(2, slower)).points_lost

    assert {name for name, points in lost.items() if points} == {line}


def test_serial_fractions_of_the_issue() -> None:
    found = [karp_flatt(share * 1024, 1024) for share in (0.99, 0.77, 0.14)]

    assert [f"{each:.2e}" for each in found] == ["9.87e-06", "2.92e-04", "6.00e-03"]


def test_speed_ups_of_the_paper_in_chips() -> None:
    alone = a_point(1, [1.0, 0, 0, 0, 0, 0, 0])
    at = {(share, size): a_point(size, [1 / share, 0, 0, 0, 0, 0, 0]) for share, size in
          [(0.99, 1024), (0.96, 1024), (0.40, 1024), (0.14, 1024), (0.41, 1536)]}  # fmt: skip

    assert [round(only_pair(alone, each).speed_up) for each in at.values()] == [1014, 983, 410, 143, 630]


def test_evaluation_takes_a_third_between_77_and_52_per_cent() -> None:
    alone = a_point(1, [77.0, 0, 0, 0, 0, 0, 0])
    together = a_point(1024, [100.0, 0, 0, 0, 0, 0, 100 * (77 / 52 - 1)])

    pair = only_pair(alone, together, evaluation=IN)
    evaluation_share = together.line_seconds["evaluation"] / sum(together.line_seconds.values())

    assert (round(pair.efficiency, 2), round(only_pair(alone, together).efficiency, 2)) == (0.52, 0.77)
    assert pair.efficiency == pair.efficiency_with_evaluation
    assert round(100 * float(evaluation_share), 1) == 32.5


def test_six_rounds_give_an_interval_in_order_of_starts() -> None:
    base = [a_point(1, [100.0 + 10 * i, 0, 0, 0, 0, 0, 0], started=i) for i in range(6)]
    many = [a_point(2, [200.0 + 20 * i, 0, 0, 0, 0, 0, 0], started=i + 0.5) for i in reversed(range(6))]

    six, five = only_pair(*base, *many), only_pair(*base[1:], *many[:5])

    assert six.interval == (0.5, 0.5) and six.rounds == 6
    assert five.interval is None and "no interval: 5 of 6 rounds" in "\n".join(
        parts_lines(parts(study([*base[1:], *many[:5]])))
    )


def test_strong_and_weak_scaling_follow_from_the_batch() -> None:
    seconds = [1.0] * 7
    one = a_point(1, seconds, batch=64)

    assert scaling([one, a_point(2, seconds, batch=32)]).form == "strong"
    assert scaling([one, a_point(2, seconds, batch=64)]).form == "weak"
    with pytest.raises(CannotCompare, match="global batch: 64 on 1 accelerators, 96 on 2 accelerators"):
        scaling([one, a_point(2, seconds, batch=48)])


def test_every_difference_of_the_points_is_named() -> None:
    one, two = a_point(1, [1.0] * 7), a_point(2, [1.0] * 7)

    with pytest.raises(CannotCompare, match=r"at least two numbers of accelerators, but found \[1\]"):
        scaling([one, one])
    with pytest.raises(CannotCompare) as refused:
        scaling([one, replace(two, network="m", data="e", precision="bf16", threads="2", is_simulated=True)])
    for name in ("network: n in 'run-1-0', m in", "data: ", "precision: fp32", "threads: 1", "is_simulated: False"):
        assert name in str(refused.value)


def test_sentences_name_the_largest_loss_and_doubtful_figures() -> None:
    one = a_point(1, [10.0, 0, 0, 0, 0, 0, 0])
    slow = study([one, a_point(2, [10.0, 9, 1, 0, 0, 0, 0]), a_point(8, [10.0, 12, 0, 0, 0, 0, 0])])
    fast = study([one, a_point(2, [5.0, 0, 0, 0, 0, 0, 0])])

    assert sentences(slow)[1] == "Most was lost in exchange: 54.5 of 54.5 points."
    assert "does not follow Amdahl's law" in warnings(slow)[0]
    assert sentences(fast)[1] == "No points of linear were lost." and "above 105 %" in warnings(fast)[0]
    assert len(sentences(slow)) == len(sentences(fast)) == 5
    assert [(each["from"], each["to"]) for each in scale_json(slow)["pairs"]] == [(1, 2), (1, 8)]


BUS = 1e3
"""Bytes per second of the journals' links: an all-reduce of 40 bytes by two ranks takes 40 ms."""


def run_of(
    ranks: int,
    *,
    bus: float | None = BUS,
    ends: bool = True,
    epochs: int = 3,
    slower: float = 0.0,
    **planted: float,
) -> list[AnyEvent]:
    """Run of three epochs of 10 s and 100 images. In each: 6 s of steps, 1 s of them validation, 2 s input, 1 s checkpoint.

    `slower`: further seconds of each epoch, busy unless `planted` adds them elsewhere. `planted`: seconds added to fields of
    the interval of each epoch.
    """
    after: list[AnyEvent] = [msgspec.structs.replace(prepared(0, 2.0), ranks=ranks)]
    for epoch in range(1, epochs + 1):
        start = (10.0 + slower) * epoch
        work = interval(0, start, start + 6 + slower, 60, epoch=epoch, busy=4.0)
        fields = {"busy_seconds": slower} | planted
        after.append(
            msgspec.structs.replace(work, **{name: getattr(work, name) + each for name, each in fields.items()})
        )
        last = Interval(
            worker=0,
            start=start + 6 + slower,
            end=start + 10 + slower,
            training_images=40,
            validation_images=50,
            busy_seconds=2.0,
            communication_seconds=0.0,
            validation_seconds=1.0,
            input_seconds=2.0 - 1.0,
            checkpoint_seconds=1.0,
        )
        after.append(msgspec.structs.replace(evaluated(0, start + 10 + slower, 0.5, epoch=epoch), interval=last))
    run_events = one_trial(*after, *([ended()] if ends else []))
    machine = {} if bus is None else {"measured_bus_bytes_per_second": bus}
    return [
        msgspec.structs.replace(each, machine=machine) if isinstance(each, WorkerJoined) else each
        for each in run_events
    ]


def test_a_journal_becomes_a_point_without_its_first_epoch() -> None:
    point = point_of_events(run_of(2, communication_seconds=1.5), "run")
    exchange = Fraction(2 * 200 / 64 * (40 / BUS))

    assert (point.images, point.accelerators, point.batch, point.global_batch) == (200, 2, 32, 64)
    assert point.line_seconds == {
        "arithmetic": 2 * 2 * (6 - 1.5 - 1),
        "exchange": exchange,
        "waiting": 2 * 2 * Fraction(1.5) - exchange,
        "input": 2 * 2 * 1,
        "checkpoint": 2 * 2 * 1,
        "unexplained": 2 * 2 * 2,
        "evaluation": 2 * 2 * 1,
    }
    assert sum(point.seconds_per_image(OUT).values()) == Fraction(2 * 2 * 9, 200)
    assert sum(point.seconds_per_image(IN).values()) == Fraction(2 * 2 * 10, 200)


PLANTED: dict[str, tuple[dict[str, float], str]] = {
    "link slowed": ({"bus": BUS / 100, "communication_seconds": 3.0}, "exchange"),
    "one rank at half speed": ({"communication_seconds": 3.0}, "waiting"),
    "decoding on one thread": ({"busy_seconds": 0.0, "input_seconds": 3.0}, "input"),
    "another load on a core": ({}, "arithmetic"),
    "slow checkpoints": ({"busy_seconds": 0.0, "checkpoint_seconds": 3.0}, "checkpoint"),
    "stopped processes": ({"busy_seconds": 0.0}, "unexplained"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_loss_is_the_largest_line(name: str) -> None:
    fields, line = PLANTED[name]
    many = run_of(2, slower=3.0, **fields)  # type: ignore[arg-type]  # the names are those of run_of

    pair = only_pair(point_of_events(run_of(1), "one"), point_of_events(many, "two"))

    assert max(pair.points_lost, key=lambda each: pair.points_lost[each]) == line
    assert math.fsum(pair.points_lost.values()) == pytest.approx(100 * (1 - pair.efficiency), abs=1e-9)


def test_without_a_bus_bandwidth_communication_is_one_line() -> None:
    one, two = point_of_events(run_of(1), "one"), point_of_events(run_of(2, bus=None, communication_seconds=2.0), "two")

    lost = only_pair(one, two).points_lost

    assert "communication" in lost and not {"exchange", "waiting"} & set(lost)
    assert only_pair(one, two).efficiency == 0.5


def test_mfu_is_operations_over_time_and_peak() -> None:
    point = a_point(2, [6.0, 0, 0, 0, 0, 0, 2.0])

    assert point.mfu(OUT) == pytest.approx(3e6 * 1000 / (6.0 * 1e9))
    assert point.mfu(IN) == pytest.approx(3e6 * 1000 / (8.0 * 1e9))
    assert replace(point, machine=replace(point.machine, peak_flops=None)).mfu(OUT) is None
    assert replace(point, watts=50.0).images_per_joule(OUT) == pytest.approx(2 * 1000 / 6 / 50)


def test_threads_of_a_processor_follow_from_its_ranks() -> None:
    runs = [
        [
            msgspec.structs.replace(each, ranks=ranks, machine={"usable_processors": 4})
            if isinstance(each, WorkerJoined)
            else each
            for each in run_of(ranks)
        ]
        for ranks in (1, 2)
    ]

    with pytest.raises(CannotCompare, match="threads: 4 in 'one', 2 in 'two'"):
        scaling([point_of_events(each, name) for each, name in zip(runs, ("one", "two"), strict=True)])


@pytest.mark.parametrize(
    ("run_events", "message"),
    [
        (run_of(1, ends=False), "a point is a run that has ended, but 'run' has not"),
        (run_of(1, epochs=1), "found no later one in 'run'"),
    ],
)
def test_a_run_without_a_point_is_refused(run_events: list[AnyEvent], message: str) -> None:
    with pytest.raises(CannotCompare, match=message):
        point_of_events(run_events, "run")


def test_a_lost_attempt_does_not_count() -> None:
    whole = run_of(1)
    again = [
        msgspec.structs.replace(each, attempt=2) if isinstance(each, TrialStarted | TrialPrepared) else each
        for each in whole
    ]
    twice = [*whole[:-1], *again[1:]]

    assert point_of_events(twice, "run") == point_of_events(whole, "run")


def test_results_lie_in_a_folder_of_runs(tmp_path: Path) -> None:
    from aiperf.journal.run_folder import run_folders

    for name in ("sweep/b", "sweep/a", "sweep/interrupted/c", "one"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "journal.jsonl").write_text("")

    assert [each.name for each in run_folders(str(tmp_path / "sweep"))] == ["a", "b"]
    assert [each.name for each in run_folders(str(tmp_path / "one"))] == ["one"]
