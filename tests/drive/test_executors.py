"""The contract of an executor: in this process, on Ray or simulated, a driver finds the same manners."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import get_args

import pytest

from aiperf.journal.events import ProposalRequested, TrialPrepared, WorkerLost
from aiperf.journal.messages import (
    Advanced,
    CheckpointGone,
    Drop,
    EpochDone,
    Order,
    ProposalReturned,
    Release,
    Sum,
    Train,
    TrialDone,
)
from tests.builders.network import one_torch_thread
from tests.rigs.executors import EXECUTORS, PATIENCE_SECONDS, Bench, at_work, attempt_of, is_last, opened, order_for

__all__ = ["one_torch_thread"]

FIRST, CHILD = 0, 10
"""Number of the starting network, and first number of its children."""


@pytest.fixture(scope="module", params=EXECUTORS)
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One executor for all tests, as in a run. Its first worker is up and has trained the starting network."""
    with opened(request.param, tmp_path_factory.mktemp(request.param)) as bench:
        bench.next_up()
        yield bench


@pytest.fixture(scope="module")
def start(bench: Bench) -> ProposalReturned:
    """The starting network, trained and observed."""
    proposal = bench.proposed(FIRST, starting_network=True)
    bench.trained(proposal)
    bench.observe(proposal, accuracy=0.5)
    return proposal


@pytest.fixture(scope="module")
def child(bench: Bench, start: ProposalReturned) -> ProposalReturned:
    """A proposal that inherits from it."""
    for number in range(CHILD, CHILD + 20):
        proposal = bench.proposed(number)
        if proposal.parent == FIRST:
            return proposal
    raise AssertionError("none of twenty proposals knows the observations that were reported before its request")


def test_a_worker_is_up_under_the_lowest_free_number(bench: Bench) -> None:
    assert [up.worker for up in bench.ups()] == [0]
    assert bench.ups()[0].ranks >= 1 and bench.ups()[0].host


def test_the_starting_network_is_the_answer_where_it_is_wanted(start: ProposalReturned) -> None:
    assert (start.number, start.parent, start.morphs) == (FIRST, None, ())


def test_messages_of_an_order_arrive_in_order_up_to_the_last(bench: Bench, start: ProposalReturned) -> None:
    words = bench.words_of(order_for(start, bench.worker))

    assert isinstance(words[0], TrialPrepared)
    assert words[-1] == TrialDone(trial=FIRST, attempt=1, reason="epochs")
    assert [word.advanced.epoch for word in words if isinstance(word, EpochDone)] == [1, 2]
    assert {type(word) for word in words[1:-1]} <= {Advanced, EpochDone}


def test_sums_rise_and_end_with_all_images_of_the_epoch(bench: Bench, start: ProposalReturned) -> None:
    words = bench.words_of(order_for(start, bench.worker))
    sums = [word.advanced if isinstance(word, EpochDone) else word for word in words if attempt_of(word)][1:-1]
    whole = [word.advanced for word in words if isinstance(word, EpochDone)]

    for before, after in pairwise(sums):
        assert isinstance(before, Advanced) and isinstance(after, Advanced)
        assert (before.epoch, before.training_images, before.validation_images) <= (
            after.epoch,
            after.training_images,
            after.validation_images,
        )
        for name in ("busy", "communication", "validation", "input", "checkpoint"):
            assert getattr(before, f"{name}_seconds") <= getattr(after, f"{name}_seconds"), name
    assert {(each.training_images, each.validation_images) for each in whole} == {(160, 50)}


def test_a_request_is_answered_once_under_its_number(bench: Bench, child: ProposalReturned) -> None:
    bench.trained(child)  # long enough for an answer that came twice

    for number in range(CHILD, child.number + 1):
        assert len(bench.answers(number)) == 1


def test_a_child_inherits_weights_until_they_are_dropped(bench: Bench, child: ProposalReturned) -> None:
    assert isinstance(bench.trained(child, attempt=2)[-1], TrialDone)

    bench.executor.send(Drop(trial=FIRST))
    # A worker of Ray removes the checkpoint in the background, so a trial that is ordered at once may still find it.
    for attempt in range(100, 200):
        words = bench.trained(child, attempt=attempt)
        if not isinstance(words[-1], TrialDone):
            break

    assert [type(word) for word in words] == [CheckpointGone]
    assert isinstance(words[0], CheckpointGone) and words[0].missing == FIRST


def test_a_trial_continues_after_its_last_epoch_or_reports(bench: Bench, child: ProposalReturned) -> None:
    bench.trained(child, attempt=4, parent=None)
    words = bench.trained(child, attempt=5, first_epoch=3, last_epoch=3, losses=(1.0, 1.0))
    gone = bench.trained(child, attempt=6, first_epoch=9, last_epoch=9, losses=(1.0,) * 8)

    assert [word.advanced.epoch for word in words if isinstance(word, EpochDone)] == [3]
    assert isinstance(words[-1], TrialDone)
    assert [type(word) for word in gone] == [CheckpointGone]
    assert isinstance(gone[0], CheckpointGone) and gone[0].missing == child.number


def test_a_trial_reports_its_sums_on_request_and_continues(bench: Bench, child: ProposalReturned) -> None:
    order = order_for(child, bench.worker, attempt=7, parent=None, last_epoch=4, progress_seconds=1e6)
    bench.executor.send(order)
    bench.until(lambda _: bool(bench.words_of(order)))

    bench.executor.send(Sum(worker=bench.worker))
    bench.until(lambda _: any(isinstance(word, Advanced | EpochDone) for word in bench.words_of(order)))
    bench.until(lambda _: any(is_last(word, order) for word in bench.said))

    words = bench.words_of(order)
    assert [word.advanced.epoch for word in words if isinstance(word, EpochDone)] == [1, 2, 3, 4]
    assert isinstance(words[-1], TrialDone)


def test_an_order_for_a_worker_that_is_not_there_is_dropped(bench: Bench, child: ProposalReturned) -> None:
    nobody = bench.worker + 99
    bench.executor.send(ProposalRequested(number=500, worker=nobody, round=1, seed=1, position=0))
    bench.executor.send(order_for(child, nobody, trial=500))
    bench.executor.send(Sum(worker=nobody))
    bench.executor.send(Release(worker=nobody, reason="silent"))

    assert isinstance(bench.trained(child, attempt=8, parent=None)[-1], TrialDone)
    assert bench.answers(500) == [] and not any((attempt_of(word) or (0, 0))[0] == 500 for word in bench.said)
    assert len(bench.ups()) == 1


def test_waiting_for_words_that_do_not_come_ends_in_time(bench: Bench) -> None:
    """Wait by the driver's clock, which a simulated executor advances itself."""
    deadline = time.monotonic() + PATIENCE_SECONDS

    while bench.executor.messages(0.05):
        assert time.monotonic() < deadline


def test_a_released_worker_is_replaced_under_a_new_number(bench: Bench, child: ProposalReturned) -> None:
    order = order_for(child, bench.worker, attempt=9, parent=None, last_epoch=10_000)
    bench.executor.send(order)
    bench.until(lambda _: any(isinstance(word, EpochDone) for word in bench.words_of(order)))

    bench.executor.send(Release(worker=bench.worker, reason="silent"))
    assert bench.next_up().worker == 1
    before = len(bench.words_of(order))

    assert isinstance(bench.trained(child, attempt=10, parent=None)[-1], TrialDone)
    assert len(bench.words_of(order)) == before
    assert not any(isinstance(word, WorkerLost) for word in bench.said), "the driver has said so itself"


def test_closing_in_the_midst_of_a_trial_leaves_nothing_behind(bench: Bench, child: ProposalReturned) -> None:
    """The last of an executor's tests: nothing can be asked of it afterwards."""
    order = order_for(child, bench.worker, attempt=11, parent=None, last_epoch=10_000)
    bench.executor.send(order)
    bench.until(lambda _: any(isinstance(word, EpochDone) for word in bench.words_of(order)))

    bench.executor.close()

    deadline = time.monotonic() + PATIENCE_SECONDS
    while at_work() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert at_work() == []


def test_the_contract_knows_every_order_there_is() -> None:
    assert set(get_args(Order)) == {ProposalRequested, Train, Drop, Release, Sum}
