"""Every answer to a request is recomputed: proposals, correct rejections and false answers are distinguished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiperf.drive.session import SessionState
from aiperf.journal.events import (
    AnyEvent,
    CheckpointDropped,
    ProposalRequested,
    RunStarted,
    TrialProposed,
    TrialRejected,
)
from aiperf.journal.first_line import config_hash
from aiperf.journal.messages import Advanced, Message, ProposalFailed, ProposalReturned
from aiperf.rules.proposals import Proposer, make
from morphism import decode
from searchers.searcher_config import RandomConf
from tests.builders.journal import begun, evaluated, finished, joined, positioned, proposed, requested, started
from tests.builders.verified_proposals import verify_proposals
from tests.rigs.scripted_driver import SPACE, drivable, driver_after, written

PROPOSER = Proposer(RandomConf().build(), None)
START = decode(msgspec.json.encode(started().start_graph).decode())


def asked(first: RunStarted, seed: int = 1, *, is_trained: bool = True) -> list[AnyEvent]:
    """Return a run with a trained or running starting network on worker 0, and one more request."""
    of_start = msgspec.structs.replace(proposed(0), fingerprint=START.fingerprint, seed=0)
    training: list[AnyEvent] = [begun(0, 1.0), evaluated(0, 2.0, 0.5)]
    ending: list[AnyEvent] = [finished(0, 2.0, 0.5)] if is_trained else []
    request = msgspec.structs.replace(requested(1, at=3.0, round=2), seed=seed)
    return positioned([first, joined(), requested(0), of_start, *training, *ending, request])


def answer(events: Sequence[AnyEvent]) -> ProposalReturned | ProposalFailed:
    """Return the searcher's answer to the request at the end of these events."""
    first, request = events[0], events[-1]
    assert isinstance(first, RunStarted) and isinstance(request, ProposalRequested)
    standing = SessionState.at(first)
    for event in events[1:-1]:
        standing.take(event)
    return make(PROPOSER, standing.history, request)


def a_child_of_the_trained_network() -> list[AnyEvent]:
    """Return events with a last request, answered by a morph of trial 0."""
    for seed in range(100):
        events = asked(drivable(), seed)
        word = answer(events)
        if isinstance(word, ProposalReturned) and word.parent == 0:
            return events
    raise AssertionError("no seed of a hundred draws the one parent there is")


def driven(folder: Path, events: Sequence[AnyEvent], *words: Message) -> tuple[TrialProposed | TrialRejected, bool]:
    """Return the driver's answer for these messages, and whether the verification finds it equal."""
    driver = driver_after(events, folder, [(5.0 + 5.0 * place, word) for place, word in enumerate(words)])
    driver.drive()
    (again,) = [one for one in verify_proposals(written(driver), PROPOSER) if one.number == 1]
    return again.recorded, again.is_equal


def test_a_proposal_of_the_searchers_own_is_equal(tmp_path: Path) -> None:
    events = asked(drivable())

    recorded, is_equal = driven(tmp_path, events, answer(events))

    assert isinstance(recorded, TrialProposed) and is_equal


def test_a_searcher_that_finds_nothing_again_is_equal(tmp_path: Path) -> None:
    config = drivable().config
    config["space"] = {**SPACE, "budget": {"forward_flops": 1, "parameters": 1, "memory_bytes": 1}}
    events = asked(msgspec.structs.replace(drivable(), config=config, config_hash=config_hash(config)))

    recorded, is_equal = driven(tmp_path, events, answer(events))

    assert isinstance(recorded, TrialRejected) and recorded.by == "searcher"
    assert is_equal


def test_rejection_for_dropped_parent_weights_is_equal(tmp_path: Path) -> None:
    events = a_child_of_the_trained_network()
    word = answer(events)

    recorded, is_equal = driven(
        tmp_path, [*events, CheckpointDropped(at=4.0, trial=0, cause="gone", reason="the disk is gone")], word
    )

    assert isinstance(recorded, TrialRejected) and recorded.by == "check"
    assert is_equal


def test_rejection_of_another_proposal_is_unequal(tmp_path: Path) -> None:
    events = asked(drivable())
    word = answer(events)
    assert isinstance(word, ProposalReturned)

    recorded, is_equal = driven(tmp_path, events, msgspec.structs.replace(word, morphs=({"morph": "invented"},)))

    assert isinstance(recorded, TrialRejected) and recorded.by == "check"
    assert not is_equal


def test_a_rejection_that_the_check_does_not_give_is_not_equal() -> None:
    events = asked(drivable())

    (*_, again) = verify_proposals(
        [*events, TrialRejected(at=5.0, number=1, reason="it did not please", by="check")], PROPOSER
    )

    assert not again.is_equal


def test_false_empty_search_is_unequal(tmp_path: Path) -> None:
    recorded, is_equal = driven(tmp_path, asked(drivable()), ProposalFailed(number=1, reason="nothing to propose"))

    assert isinstance(recorded, TrialRejected) and recorded.by == "searcher"
    assert not is_equal


def test_rejection_by_a_dead_generator_is_equal(tmp_path: Path) -> None:
    word = ProposalFailed(number=1, reason="no proposal: its generator died", was_made=False)

    recorded, is_equal = driven(tmp_path, asked(drivable()), word)

    assert isinstance(recorded, TrialRejected) and recorded.by == "generator"
    assert is_equal


def test_request_without_an_answer_is_equal(tmp_path: Path) -> None:
    events = asked(drivable(limits={"silence_seconds": 20.0}), is_trained=False)

    recorded, is_equal = driven(tmp_path, events, *[working(images) for images in range(10, 70, 10)])

    assert isinstance(recorded, TrialRejected) and recorded.by == "silence"
    assert is_equal


def working(images: int) -> Advanced:
    """Return a message of trial 0 in its second epoch."""
    sums: dict[str, Any] = dict.fromkeys(("busy", "communication", "validation", "input", "checkpoint"), float(images))
    return Advanced(
        trial=0,
        attempt=1,
        epoch=2,
        batch_size=32,
        training_images=images,
        validation_images=0,
        **{f"{name}_seconds": seconds for name, seconds in sums.items()},
    )
