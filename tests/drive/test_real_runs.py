"""Whole benchmark on real Ray, Horovod and torch: killed, resumed, interrupted, and run to its end.

One run goes through all of that (`journey`). Each test checks one part of it.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.config import from_plain
from aiperf.journal.events import (
    AnyEvent,
    CheckpointWritten,
    EpochFinished,
    Progress,
    RunEnded,
    RunResumed,
    RunStarted,
    TrialFinished,
    TrialLost,
    TrialPrepared,
    TrialStarted,
    WorkerJoined,
    WorkerLost,
)
from aiperf.rules.proposals import proposer_of
from tests.builders.verified_proposals import verify_proposals
from tests.rigs.processes import command_line, descendants, worker_host
from tests.rigs.real_run import CTRL_C, SMALL, Begin, Left, RealRun, left_behind, mark_of, rank_of, small

TRIALS = 7
"""Number of finished trials after which the run ends. Tuning begins with the fourth trial."""


def counted_images(events: list[AnyEvent]) -> dict[tuple[int, int], int]:
    """Training images that count, of each (trial, epoch)."""
    last: dict[tuple[int, int], tuple[int, int]] = {}
    for event in events:
        if isinstance(event, Progress | EpochFinished) and event.interval is not None:
            attempt, images = last.get((event.trial, event.epoch), (event.attempt, 0))
            images = images if attempt == event.attempt else 0
            last[event.trial, event.epoch] = (event.attempt, images + event.interval.training_images)
    return {key: images for key, (_, images) in last.items()}


def some(kind: type[AnyEvent], count: int) -> Callable[[list[AnyEvent]], bool]:
    return lambda events: sum(isinstance(event, kind) for event in events) >= count


def assert_sound(events: list[AnyEvent]) -> None:
    """Assert what holds for every journal."""
    images = counted_images(events)
    for event in events:
        if isinstance(event, EpochFinished):
            assert images[event.trial, event.epoch] == 512
    assert max(images.values()) <= 512
    assert score(work_log(events)).valid


@dataclass(frozen=True, slots=True)
class Journey:
    """A run through a kill of its driver, a resume, Ctrl-C, and another resume to its end."""

    seen: list[AnyEvent]
    """Its journal a moment before its driver was killed,"""
    killed: list[AnyEvent]
    """when it had been,"""
    interrupted: list[AnyEvent]
    """after Ctrl-C,"""
    ended: list[AnyEvent]
    """and in the end."""
    left: Left
    """Lines of the killed driver."""
    reported: tuple[bool, bool]
    """True if a report existed after Ctrl-C, and at the end."""
    output: list[str]
    """Output of the last driver."""


@pytest.fixture(scope="module", params=[0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9))])
def journey(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    """The seed draws after which epoch the driver is killed, and how long after it."""
    seed: int = request.param
    place, chooser, begun = tmp_path_factory.mktemp(f"journey{seed}"), random.Random(seed), []

    def begin(*words: str) -> RealRun:
        begun.append(RealRun(place, *words))
        return begun[-1]

    try:
        yield travelled(begin, chooser)
    finally:
        for run in begun:
            run.end()


def travelled(begin: Begin, chooser: random.Random) -> Journey:
    # one batch size is left to tune: with those of 8 that it would choose, the later epochs are most of the journey
    quick = ("batch.smallest=32", "batch.largest=32")
    run = begin(*SMALL, *quick, "schedule.duration_seconds=7200", f"limits.trials={TRIALS}")
    seen = run.until(some(EpochFinished, chooser.randint(1, 7)))
    ends = [event.at for event in seen if isinstance(event, EpochFinished)]
    epoch = (ends[-1] - next(event.at for event in seen if isinstance(event, TrialPrepared))) / len(ends)
    time.sleep(chooser.uniform(0.0, 2.0) * epoch)  # any point of an epoch, a checkpoint, a change of trials
    mark, host = mark_of(run), worker_host(run.process.pid)
    maps = Path(f"/proc/{rank_of(run)}/maps").read_text()
    assert re.search(rf"{mark.folder}/\S+/heartbeats$", maps, re.MULTILINE), "what ranks share goes with the run"
    os.kill(host, signal.SIGSTOP)  # one that would not notice
    run.kill()
    left = left_behind(mark, host)
    killed = run.events()

    finished = sum(isinstance(event, TrialFinished) for event in killed)
    again = begin(f"resume={run.folder}")
    again.until(some(TrialFinished, max(finished + 1, 3)))  # few trials may err too much for a valid score
    assert again.interrupt() == CTRL_C, again.output.read_text()
    interrupted, report = again.events(), again.folder / "report.html"
    reported = report.stat().st_size > 0
    report.unlink()

    last = begin(f"resume={run.folder}")
    assert last.wait() == 0, last.output.read_text()
    output = last.output.read_text().splitlines()
    return Journey(seen, killed, interrupted, last.events(), left, (reported, report.stat().st_size > 0), output)


def test_a_killed_and_interrupted_run_ends_with_score_and_report(
    journey: Journey,
) -> None:
    events = journey.ended
    first, end = events[0], events[-1]

    assert_sound(events)
    assert isinstance(end, RunEnded) and end.reason == "trials"
    assert sum(isinstance(event, TrialFinished) for event in events) >= TRIALS
    assert isinstance(first, RunStarted)
    conf = from_plain(first.config)
    proposals = list(verify_proposals(events, proposer_of(conf.searcher, conf.hpo)))
    assert len(proposals) >= TRIALS
    assert [one.number for one in proposals if not one.is_equal] == []
    assert {event.ranks for event in events if isinstance(event, WorkerJoined)} == {2}
    assert journey.output[-1].endswith("report.html") and journey.reported[1]
    assert any(line.startswith("score ") for line in journey.output)


def test_a_killed_driver_leaves_nothing_behind(journey: Journey) -> None:
    assert journey.left == Left()


def test_a_killed_driver_loses_at_most_the_epoch_in_progress(journey: Journey) -> None:
    before, events = journey.killed, journey.interrupted

    assert before[: len(journey.seen)] == journey.seen
    assert events[: len(before)] == before
    resumed = events[len(before)]
    assert isinstance(resumed, RunResumed) and resumed.at >= before[-1].at
    # An epoch that the journal knows as finished, with a checkpoint, is not done again.
    saved = {(event.trial, event.epoch) for event in before if isinstance(event, CheckpointWritten)}
    after = [event for event in events[len(before) :] if isinstance(event, Progress | EpochFinished)]
    redone = {(event.trial, event.epoch) for event in after}
    assert redone and not saved & redone


def test_a_run_ended_by_ctrl_c_has_a_report_and_can_be_resumed(journey: Journey) -> None:
    events = journey.interrupted

    assert_sound(events)
    assert isinstance(events[-1], RunEnded) and events[-1].reason == "interrupted"
    assert journey.reported[0]
    assert journey.ended[: len(events)] == events and isinstance(journey.ended[len(events)], RunResumed)


@pytest.mark.slow
def test_a_killed_workers_trial_continues_from_its_checkpoint(begin: Begin) -> None:
    run = begin(*small("schedule.duration_seconds=7200", "schedule.epochs=[20]", "limits.trials=1"))
    run.until(some(EpochFinished, 3))
    host = worker_host(run.process.pid)
    os.kill(host, signal.SIGKILL)
    assert run.wait() == 0, run.output.read_text()

    events = run.events()
    assert_sound(events)
    lost = next(index for index, event in enumerate(events) if isinstance(event, WorkerLost))
    retried = next(event for event in events[lost:] if isinstance(event, TrialStarted))
    finished = [
        event.epoch for event in events[:lost] if isinstance(event, EpochFinished) and event.trial == retried.trial
    ]
    assert retried.attempt == 2
    assert retried.epoch == max(finished) + 1
    assert sum(isinstance(event, WorkerJoined) for event in events) == 2


@pytest.mark.slow
def test_a_killed_rank_costs_an_attempt_and_not_the_worker(begin: Begin) -> None:
    run = begin(*small("schedule.duration_seconds=7200", "schedule.epochs=[20]", "limits.trials=1"))
    run.until(some(EpochFinished, 3))
    rank = next(child for child in descendants(run.process.pid) if b"aiperf.train" in command_line(child))
    # not at Ray's niceness of 15: training gives way to nothing
    assert os.getpriority(os.PRIO_PROCESS, rank) == os.getpriority(os.PRIO_PROCESS, run.process.pid)
    os.kill(rank, signal.SIGKILL)
    assert run.wait() == 0, run.output.read_text()

    events = run.events()
    assert_sound(events)
    lost = next(event for event in events if isinstance(event, TrialLost))
    assert "rank" in lost.reason and "of 2 on" in lost.reason
    assert not any(isinstance(event, WorkerLost) for event in events)
    assert any(isinstance(event, TrialStarted) and event.attempt == 2 for event in events)


def test_a_damaged_configuration_stops_before_anything_starts(begin: Begin, tmp_path: Path) -> None:
    run = begin("dataset=images", f"dataset.root={tmp_path / 'nowhere'}")

    assert run.wait() == 2
    assert "nowhere" in run.output.read_text()
    assert not (tmp_path / "runs").exists()
