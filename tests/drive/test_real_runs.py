"""The whole benchmark on real Ray, real Horovod and real torch: killed, interrupted, taken up again."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.config import from_plain
from aiperf.journal.events import (
    AnyEvent,
    EpochFinished,
    Progress,
    RunEnded,
    RunResumed,
    RunStarted,
    TrialFinished,
    TrialLost,
    TrialStarted,
    WorkerJoined,
    WorkerLost,
)
from aiperf.journal.journal import read
from aiperf.rules.proposals import proposer_of
from aiperf.rules.verify_proposals import verify_proposals
from tests.drive.processes import command_line, descendants, worker_host
from tests.drive.runs import SMALL, RealRun

Begin = Callable[..., RealRun]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Begins a real run."""
    begun: list[RealRun] = []

    def run(*words: str) -> RealRun:
        begun.append(RealRun(tmp_path, *words))
        return begun[-1]

    yield run
    for one in begun:
        one.end()


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


def assert_sound(folder: Path) -> list[AnyEvent]:
    """What must hold of every journal, whatever happened to its run."""
    events = list(read(folder))
    images = counted_images(events)
    for event in events:
        if isinstance(event, EpochFinished):
            assert images[event.trial, event.epoch] == 512
    assert max(images.values()) <= 512
    assert score(work_log(events)).valid
    assert (folder / "report.html").stat().st_size > 0
    return events


def test_a_run_from_the_first_word_to_the_report_with_every_proposal_rederived(begin: Begin) -> None:
    # it ends with its sixth trial; the time is for a machine that does other work too
    run = begin(*SMALL, "schedule.duration_seconds=900", "limits.trials=6")

    assert run.wait() == 0, run.output.read_text()

    events = assert_sound(run.folder)
    first = events[0]
    assert isinstance(first, RunStarted)
    conf = from_plain(first.config)
    proposals = list(verify_proposals(events, proposer_of(conf.searcher, conf.hpo)))
    assert len(proposals) >= 6
    assert [one.number for one in proposals if not one.is_equal] == []
    joined = next(event for event in events if isinstance(event, WorkerJoined))
    assert joined.ranks == 2
    said = run.output.read_text().splitlines()
    assert said[-1].endswith("report.html") and any(line.startswith("score ") for line in said)


@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9)]])
def test_a_driver_killed_at_a_random_moment_loses_at_most_the_epoch_in_progress(begin: Begin, seed: int) -> None:
    """The seed stands in the test's name; it draws after which epoch, and how long after it."""
    chooser = random.Random(seed)
    run = begin(*SMALL, "schedule.duration_seconds=45")
    killed = run.until(some(EpochFinished, chooser.randint(1, 7)))
    time.sleep(chooser.uniform(0.0, 2.0))  # about two epochs: any point of an epoch, a checkpoint, a change of trials
    run.kill()

    before = run.events()
    assert before[: len(killed)] == killed
    again = begin(f"resume={run.folder}")
    assert again.wait() == 0, again.output.read_text()

    events = assert_sound(run.folder)
    assert events[: len(before)] == before
    resumed = next(event for event in events if isinstance(event, RunResumed))
    assert resumed.at >= before[-1].at
    # An epoch that the journal knows as finished, with a checkpoint, is not done again.
    saved = {(event.trial, event.epoch) for event in before if isinstance(event, EpochFinished) and event.checkpoint}
    after = [event for event in events[len(before) :] if isinstance(event, Progress | EpochFinished)]
    redone = {(event.trial, event.epoch) for event in after}
    assert not saved & redone


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_trial_goes_on_from_its_checkpoint(begin: Begin) -> None:
    run = begin(*SMALL, "schedule.duration_seconds=50", "schedule.epochs=[40]", "schedule.patience=40")
    run.until(some(EpochFinished, 3))
    host = worker_host(run.process.pid)
    os.kill(host, signal.SIGKILL)
    assert run.wait() == 0, run.output.read_text()

    events = assert_sound(run.folder)
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
    run = begin(*SMALL, "schedule.duration_seconds=45", "schedule.epochs=[40]", "schedule.patience=40")
    run.until(some(EpochFinished, 3))
    rank = next(child for child in descendants(run.process.pid) if b"aiperf.train" in command_line(child))
    # not at Ray's niceness of 15: training gives way to nothing
    assert os.getpriority(os.PRIO_PROCESS, rank) == os.getpriority(os.PRIO_PROCESS, run.process.pid)
    os.kill(rank, signal.SIGKILL)
    assert run.wait() == 0, run.output.read_text()

    events = assert_sound(run.folder)
    lost = next(event for event in events if isinstance(event, TrialLost))
    assert "rank" in lost.reason and "of 2 on" in lost.reason
    assert not any(isinstance(event, WorkerLost) for event in events)
    assert any(isinstance(event, TrialStarted) and event.attempt == 2 for event in events)


def test_ctrl_c_once_ends_the_run_with_a_valid_report_and_it_can_be_resumed(begin: Begin) -> None:
    run = begin(*SMALL, "schedule.duration_seconds=600")
    run.until(some(TrialFinished, 2))
    run.until(lambda events: events[-1].at > 6)

    assert run.interrupt() == 0, run.output.read_text()

    events = assert_sound(run.folder)
    assert isinstance(events[-1], RunEnded) and events[-1].reason == "interrupted"
    again = begin(f"resume={run.folder}")
    again.until(lambda events: some(RunResumed, 1)(events) and isinstance(events[-1], Progress | EpochFinished))
    assert again.interrupt() == 0, again.output.read_text()
    assert_sound(run.folder)


def test_a_damaged_configuration_stops_before_anything_starts(begin: Begin, tmp_path: Path) -> None:
    run = begin("dataset=images", f"dataset.root={tmp_path / 'nowhere'}")

    assert run.wait() == 2
    assert "nowhere" in run.output.read_text()
    assert not (tmp_path / "runs").exists()
