"""Turns of a driver: its events, its messages, and the end of its run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiperf.drive.driver import LINGER_SECONDS, Driver
from aiperf.errors import NoWorkers
from aiperf.journal.events import (
    AnyEvent,
    CheckpointDropped,
    Progress,
    ProposalRequested,
    RunEnded,
    TrialFinished,
    TrialRejected,
    WorkerLost,
)
from aiperf.journal.messages import Advanced, EpochDone, Message, Order, ProposalFailed, Sum, TrialDone
from tests.builders.journal import (
    begun,
    evaluated,
    joined,
    one_trial,
    positioned,
    prepared,
    proposed,
    requested,
    resumed,
)
from tests.rigs.scripted_driver import drivable, driver_after, up, written


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_finished_trial_is_a_parent_only_with_a_checkpoint(checkpoint: bool, tmp_path: Path) -> None:
    events = one_trial(evaluated(0, 4, 0.4, checkpoint=checkpoint), evaluated(0, 5, 0.5, epoch=2, checkpoint=False))
    driver = driver_after([drivable(), *events[1:]], tmp_path, [(6.0, TrialDone(trial=0, attempt=1, reason="epochs"))])

    driver.drive()

    assert ends(written(driver)) == [TrialFinished, CheckpointDropped][: 1 if checkpoint else 2]
    assert driver.history.parents() == ((0,) if checkpoint else ())


def test_a_lost_trial_without_a_checkpoint_is_no_parent(tmp_path: Path) -> None:
    events = one_trial(
        evaluated(0, 4, 0.4, checkpoint=False),
        evaluated(0, 5, 0.5, epoch=2, checkpoint=False),
        WorkerLost(at=6, worker=0, reason="power"),
    )
    driver = driver_after([drivable(), *events[1:]], tmp_path, [(7.0, up(1))])

    driver.drive()

    assert ends(written(driver)) == [TrialFinished, CheckpointDropped]
    assert driver.history.parents() == ()


def sums_after(images: int, trial: int = 0, epoch: int = 1) -> Advanced:
    """Return the sums of a trial after `images` training images of its epoch."""
    seconds = dict.fromkeys(("busy", "communication", "validation", "input", "checkpoint"), 0.0)
    return Advanced(
        trial=trial,
        attempt=1,
        epoch=epoch,
        batch_size=32,
        training_images=images,
        validation_images=0,
        **{f"{name}_seconds": value for name, value in seconds.items()},
    )


def answering_sums(order: Order) -> list[tuple[float, Message]]:
    """A worker that has done 40 images reports them only after a request."""
    return [(0.2, sums_after(40))] if isinstance(order, Sum) else []


def at_work(*after: AnyEvent, limits: dict[str, Any] | None = None, host: str = "a") -> list[AnyEvent]:
    """Trial 0 is being trained by worker 0."""
    return [drivable(limits=limits), *one_trial(prepared(0, 3.0), *after)[1:]]


def interrupting(driver: Driver) -> None:
    """Ctrl-C at 10 s."""
    driver.interrupted |= driver.clock.now() >= 10.0


def test_ctrl_c_ends_a_run_with_closed_intervals(tmp_path: Path) -> None:
    driver = driver_after(at_work(), tmp_path, answer=answering_sums, after_turn=interrupting)

    driver.drive()

    *_, progress, end = written(driver)
    assert isinstance(progress, Progress) and progress.training_images == 40
    assert isinstance(end, RunEnded) and end.reason == "interrupted"
    assert 10.0 <= progress.end <= end.at < 11.0


def test_a_trial_limit_ends_a_run_with_closed_intervals(tmp_path: Path) -> None:
    others: list[AnyEvent] = [joined(1, 3.0), requested(1, worker=1, at=3.0), proposed(1, 3.0), begun(1, 3.0, worker=1)]
    events = at_work(*others, prepared(1, 3.5), evaluated(1, 5.0, 0.5), limits={"trials": 1})
    events += [evaluated(1, 6.0, 0.5, epoch=2)]
    driver = driver_after(
        positioned(events), tmp_path, [(7.0, TrialDone(trial=1, attempt=1, reason="epochs"))], answering_sums
    )

    driver.drive()

    *_, finished_one, progress, end = written(driver)
    assert isinstance(finished_one, TrialFinished) and isinstance(progress, Progress)
    assert isinstance(end, RunEnded) and end.reason == "trials"
    assert (progress.trial, progress.training_images) == (0, 40)


def test_the_end_waits_two_seconds_for_a_silent_worker(
    tmp_path: Path,
) -> None:
    silent = driver_after(at_work(), tmp_path, after_turn=interrupting)
    silent.drive()
    (tmp_path / "other").mkdir()
    preparing = driver_after([drivable(), *one_trial()[1:]], tmp_path / "other", after_turn=interrupting)
    preparing.drive()

    assert written(silent)[-1].at == pytest.approx(10.0 + LINGER_SECONDS, abs=0.6)
    assert written(preparing)[-1].at == pytest.approx(10.0, abs=0.6)


def test_a_resumed_run_without_machines_can_be_resumed_again(tmp_path: Path) -> None:
    events = [*at_work(), resumed(20.0, down_seconds=17.0)]
    driver = driver_after(events, tmp_path, first_worker_seconds=30.0)

    with pytest.raises(NoWorkers, match=f"none came up within 30 s.* resume={tmp_path}"):
        driver.drive()

    end = written(driver)[-1]
    assert isinstance(end, RunEnded) and end.reason == "no workers"
    assert end.at == pytest.approx(50.0, abs=1.0)


def rejecting(worker: int) -> Callable[[Order], list[tuple[float, Message]]]:
    """Machines on which one worker's generator never finds a proposal, and the others do not answer."""

    def answer(order: Order) -> list[tuple[float, Message]]:
        if isinstance(order, ProposalRequested) and order.worker == worker:
            return [(0.1, ProposalFailed(number=order.number, reason="nothing"))]
        return answering_sums(order)

    return answer


def rejections(events: list[AnyEvent]) -> int:
    return sum(isinstance(event, TrialRejected) for event in events)


def test_a_worker_with_rejected_requests_does_not_end_the_run(tmp_path: Path) -> None:
    events = positioned([*at_work(limits={"rejections": 5}), joined(1, 4.0)])
    driver = driver_after(events, tmp_path, answer=rejecting(1))

    driver.drive()

    end = written(driver)[-1]
    assert isinstance(end, RunEnded) and end.reason == "duration"
    assert rejections(written(driver)) == 5  # no trial has finished: one request at a time


def test_a_search_that_has_nothing_left_ends_the_run(tmp_path: Path) -> None:
    driver = driver_after([drivable(limits={"rejections": 5}), joined()], tmp_path, answer=rejecting(0))

    driver.drive()

    end = written(driver)[-1]
    assert isinstance(end, RunEnded) and end.reason == "no proposals"
    assert end.at < 5.0


def test_a_worker_gets_a_request_again_after_a_finished_trial(tmp_path: Path) -> None:
    trained = [evaluated(0, 20.0, 0.5), evaluated(0, 30.0, 0.5, epoch=2)]
    events = positioned([*at_work(limits={"rejections": 5}), joined(1, 4.0)])
    done = [(40.0, TrialDone(trial=0, attempt=1, reason="epochs"))]
    words = [(event.at, epoch_done(event.epoch)) for event in trained]
    driver = driver_after(events, tmp_path, [*words, *done], rejecting(1))

    driver.drive()

    late = [e for e in written(driver) if isinstance(e, ProposalRequested) and e.worker == 1 and e.at >= 40.0]
    assert late


def test_rejections_before_a_resume_are_not_counted(tmp_path: Path) -> None:
    many: list[AnyEvent] = [
        event for number in range(1, 5) for event in (requested(number, at=3.0, round=2), rejected(number))
    ]
    events = positioned([*at_work(*many, limits={"rejections": 5}), resumed(20.0, down_seconds=17.0)])
    # the first worker that comes up continues the lost trial, the second receives a request
    driver = driver_after(events, tmp_path, [(21.0, up(1)), (21.0, up(2))], rejecting(2))

    driver.drive()

    assert rejections(written(driver)) >= 4 + 5


def rejected(number: int) -> TrialRejected:
    return TrialRejected(at=3.0, number=number, reason="nothing", by="searcher")


def epoch_done(epoch: int) -> EpochDone:
    sums = msgspec.structs.replace(sums_after(100, epoch=epoch), validation_images=50)
    return EpochDone(
        trial=sums.trial,
        attempt=sums.attempt,
        epoch=epoch,
        advanced=sums,
        accuracy=0.5,
        validation_loss=0.5,
        training_loss=0.5,
        learning_rate=0.1,
        checkpoint=True,
    )


def ends(events: list[AnyEvent]) -> list[type]:
    """Return the events of ends of trials and their weights."""
    return [type(event) for event in events if isinstance(event, TrialFinished | CheckpointDropped)]
