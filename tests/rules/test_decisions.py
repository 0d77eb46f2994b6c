"""Events of messages, and decisions: late, repeated and reordered messages change nothing, and lost work is repeated."""

from __future__ import annotations

import random

import msgspec
import pytest

from aiperf.journal import events, messages
from aiperf.journal.events import (
    AnyEvent,
    BatchReduced,
    Cause,
    CheckpointDropped,
    EpochFinished,
    Progress,
    ProposalRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    TrialFailed,
    TrialLost,
    TrialPrepared,
    TrialRejected,
    TrialStarted,
    WorkerLost,
)
from aiperf.journal.legality import TrialState
from aiperf.rules.decide import decide
from aiperf.rules.evolve import evolve
from aiperf.rules.interpret import interpret
from aiperf.rules.state import Run
from tests.builders.journal import (
    LIMITS,
    SCHEDULE,
    begun,
    evaluated,
    finished,
    interval,
    joined,
    one_trial,
    proposed,
    requested,
    resumed,
    started,
    state_after,
    whole_trial,
)


def advanced(
    trial: int, epoch: int, training: int, validation: int = 0, attempt: int = 1, batch_size: int = 32
) -> messages.Advanced:
    return messages.Advanced(
        trial=trial,
        attempt=attempt,
        epoch=epoch,
        batch_size=batch_size,
        training_images=training,
        validation_images=validation,
        busy_seconds=1.0,
        communication_seconds=0.0,
        validation_seconds=0.0,
        input_seconds=0.0,
        checkpoint_seconds=0.0,
    )


def epoch_done(trial: int, epoch: int, accuracy: float, attempt: int = 1) -> messages.EpochDone:
    return messages.EpochDone(
        trial=trial,
        attempt=attempt,
        epoch=epoch,
        advanced=advanced(trial, epoch, 100, 50, attempt),
        accuracy=accuracy,
        validation_loss=1 - accuracy,
        training_loss=1.0,
        learning_rate=0.1,
        checkpoint=True,
    )


PREPARED = events.TrialPrepared(
    trial=0,
    attempt=1,
    precision="fp32",
    ranks=2,
    compiled=False,
    cuda_graphs=False,
    build_seconds=0.1,
    weights_seconds=0.1,
    compile_seconds=0.0,
)


def received(run: Run, word: object, now: float) -> list[AnyEvent]:
    events = interpret(run, word, now)  # type: ignore[arg-type]
    for event in events:
        evolve(run, event)
    return events


def images_of(event: AnyEvent) -> int:
    """Return the training images that an event reports."""
    interval = event.interval if isinstance(event, Progress | EpochFinished) else None
    return 0 if interval is None else interval.training_images


def test_sums_become_intervals_that_tile_the_attempt() -> None:
    run = state_after(one_trial())

    events = [
        event for at, done in ((5.0, 10), (7.0, 30), (9.0, 60)) for event in received(run, advanced(0, 1, done), at)
    ]

    assert [(e.start, e.end, e.training_images) for e in events if isinstance(e, Progress)] == [
        (2, 5, 10),
        (5, 7, 20),
        (7, 9, 30),
    ]


def test_interval_clocks_stay_within_its_length() -> None:
    run = state_after(one_trial())
    word = msgspec.structs.replace(
        advanced(0, 1, 10), busy_seconds=2.5, communication_seconds=2.0, validation_seconds=1.0, input_seconds=0.75
    )

    (first,) = received(run, msgspec.structs.replace(word, checkpoint_seconds=0.5), 5.0)
    (second,) = received(run, msgspec.structs.replace(word, checkpoint_seconds=0.5, training_images=20), 7.0)

    assert isinstance(first, Progress) and isinstance(second, Progress)
    assert (first.busy_seconds, first.communication_seconds, first.validation_seconds) == (2.5, 2.0, 0.5)
    assert (first.input_seconds, first.checkpoint_seconds) == (0.5, 0.0)
    assert (second.busy_seconds, second.input_seconds, second.checkpoint_seconds) == (0.0, 0.25, 0.5)


def test_doubled_overtaken_and_stale_words_become_nothing() -> None:
    run = state_after(one_trial())
    received(run, advanced(0, 1, 30), 5.0)

    assert received(run, advanced(0, 1, 30), 6.0) == []
    assert received(run, advanced(0, 1, 20), 6.0) == []
    received(run, epoch_done(0, 1, 0.5), 7.0)
    assert received(run, epoch_done(0, 1, 0.5), 8.0) == []
    assert received(run, advanced(0, 1, 90), 8.0) == []
    assert received(run, advanced(0, 2, 10, attempt=2), 8.0) == []


def test_message_from_before_out_of_memory_is_ignored() -> None:
    run = state_after(one_trial())
    received(run, advanced(0, 1, 30), 5.0)
    received(run, events.BatchReduced(trial=0, attempt=1, from_batch_size=32, to_batch_size=16), 6.0)

    assert received(run, advanced(0, 1, 40, batch_size=32), 7.0) == []
    assert [
        e.training_images for e in received(run, advanced(0, 1, 20, batch_size=16), 8.0) if isinstance(e, Progress)
    ] == [20]


def test_smaller_batch_reports_a_reduction_with_a_lost_message() -> None:
    run = state_after(one_trial())
    received(run, advanced(0, 1, 30), 5.0)

    reduced, progress = received(run, advanced(0, 1, 20, batch_size=16), 8.0)

    assert isinstance(reduced, BatchReduced) and (reduced.from_batch_size, reduced.to_batch_size) == (32, 16)
    assert isinstance(progress, Progress) and progress.training_images == 20
    assert received(run, events.BatchReduced(trial=0, attempt=1, from_batch_size=32, to_batch_size=16), 9.0) == []


def test_finished_epoch_counts_after_the_next_ran_out_of_memory() -> None:
    run = state_after(one_trial())
    received(run, events.BatchReduced(trial=0, attempt=1, from_batch_size=32, to_batch_size=16), 6.0)

    (ended,) = received(run, epoch_done(0, 1, 0.5), 7.0)

    assert isinstance(ended, EpochFinished) and ended.interval is not None
    assert (ended.interval.training_images, ended.interval.validation_images) == (100, 50)
    assert run.trials[0].batch_size == 16


def test_end_of_epoch_is_one_line_with_its_last_interval() -> None:
    run = state_after(one_trial())
    received(run, advanced(0, 1, 30), 5.0)

    (ended,) = received(run, epoch_done(0, 1, 0.5), 7.0)

    assert isinstance(ended, EpochFinished) and ended.interval is not None
    interval = ended.interval
    assert (interval.start, interval.end) == (5, 7)
    assert (interval.training_images, interval.validation_images) == (70, 50)
    assert run.trials[0].interval_end == 7


def test_end_of_epoch_without_new_work_has_no_interval() -> None:
    run = state_after(one_trial())
    received(run, advanced(0, 1, 100, 50), 5.0)

    (ended,) = received(run, epoch_done(0, 1, 0.5), 7.0)

    assert isinstance(ended, EpochFinished) and ended.interval is None


def test_end_of_epoch_may_report_a_smaller_batch_first() -> None:
    run = state_after(one_trial())
    received(run, advanced(0, 1, 30), 5.0)
    word = epoch_done(0, 1, 0.5)
    word = msgspec.structs.replace(word, advanced=msgspec.structs.replace(word.advanced, batch_size=16))

    reduced, ended = received(run, word, 7.0)

    assert isinstance(reduced, BatchReduced) and (reduced.from_batch_size, reduced.to_batch_size) == (32, 16)
    assert isinstance(ended, EpochFinished) and ended.interval is not None
    assert ended.interval.training_images == 100


@pytest.mark.parametrize("seed", range(30))
def test_images_sum_for_any_order_and_repetition_of_messages(seed: int) -> None:
    words: list[object] = [advanced(0, 1, done) for done in range(10, 100, 10)]
    chooser = random.Random(seed)
    words = chooser.sample(words, k=chooser.randint(0, 9)) + chooser.choices(words, k=4)
    run = state_after(one_trial())

    events = [
        event for at, word in enumerate([*words, epoch_done(0, 1, 0.5)]) for event in received(run, word, 3.0 + at)
    ]

    assert sum(images_of(event) for event in events) == 100
    assert sum(isinstance(e, EpochFinished) for e in events) == 1


def test_late_words_of_a_dead_attempt_change_nothing() -> None:
    run = state_after(one_trial(TrialLost(at=4, trial=0, attempt=1, reason="killed"), begun(0, 5, attempt=2)))
    before = run.lines

    for word in (
        advanced(0, 1, 50),
        epoch_done(0, 1, 0.9),
        messages.TrialDone(trial=0, attempt=1, reason="epochs"),
        events.BatchReduced(trial=0, attempt=1, from_batch_size=32, to_batch_size=16),
        messages.Crashed(trial=0, attempt=1, reason="", retry=True),
    ):
        assert received(run, word, 6.0) == []
    assert run.lines == before


def requested_starts(run: Run, now: float) -> list[int]:
    """Return the requests for the starting network among the due ones."""
    return [c.number for c in decide(run, now) if isinstance(c, ProposalRequested) and c.starting_network]


def test_starting_network_is_requested_once_for_all_workers() -> None:
    assert requested_starts(state_after([started(), joined(0), joined(1), joined(2)]), 1.0) == [0]
    assert requested_starts(state_after([started(), joined(0), joined(1), requested(0)]), 1.0) == []


GIVEN_UP = [
    event
    for attempt in (1, 2, 3)
    for event in (begun(0, 4, attempt=attempt), TrialLost(at=4, trial=0, attempt=attempt, reason="x"))
]


@pytest.mark.parametrize(
    "fate",
    [
        [TrialRejected(at=3, number=0, by="generator", reason="its generator died")],
        [WorkerLost(at=3, worker=0, reason="power"), joined(2, 3)],
        [proposed(0), WorkerLost(at=3, worker=0, reason="power"), joined(2, 3)],
        [resumed(3), joined(2, 3)],
        [proposed(0), *GIVEN_UP, TrialFailed(at=5, trial=0, reason="lost 3 times")],
    ],
    ids=["rejected", "its worker lost before the answer", "withdrawn", "resumed", "given up"],
)
def test_starting_network_is_requested_until_one_has_finished(fate: list[AnyEvent]) -> None:
    run = state_after([started(), joined(0), joined(1), requested(0, worker=0), requested(1, worker=1), *fate])

    assert requested_starts(run, 6.0) == [2]

    worker = max(run.workers)
    for event in (
        requested(2, worker=worker, starting_network=True),
        proposed(2),
        begun(2, 7, worker=worker),
        evaluated(2, 8, 0.5),
        finished(2, 8, 0.5),
    ):
        evolve(run, event)
        assert requested_starts(run, 8.0) == []


def test_lost_starting_network_fails_before_the_next_request() -> None:
    run = state_after([started(), joined(0), requested(0), proposed(0), *GIVEN_UP])

    assert [type(command) for command in decide(run, 5.0)] == [TrialFailed]

    evolve(run, TrialFailed(at=5, trial=0, reason="lost 3 times"))
    assert requested_starts(run, 5.0) == [1]


def test_starting_network_is_not_requested_beyond_the_limit() -> None:
    run = state_after([started(), joined(0)])

    asked = []
    for number in range(5):
        asked += [number] if requested_starts(run, 1.0) else []
        evolve(run, requested(number, starting_network=number < 3))
        evolve(run, proposed(number))
        evolve(run, begun(number, 1.0))
        evolve(run, TrialFailed(at=1.0, trial=number, reason="out of memory even at batch 4"))

    assert asked == [0, 1, 2]  # limits.attempts


def requests_due(run: Run, now: float) -> list[int]:
    """Return the numbers of the due requests."""
    return [command.number for command in decide(run, now) if isinstance(command, ProposalRequested)]


def limited(trials: int, spares: int = 1) -> RunStarted:
    """First event of a run with limits.trials."""
    return started(config={"limits": LIMITS | {"trials": trials, "spares": spares}, "schedule": SCHEDULE})


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_no_proposal_is_requested_beyond_the_limit_of_trials(workers: int) -> None:
    run = state_after([limited(2), *(joined(worker) for worker in range(workers))])

    assert requests_due(run, 1.0) == [0, 1][:workers]

    for number in requests_due(run, 1.0):
        evolve(run, requested(number, worker=number, starting_network=number == 0))
        evolve(run, proposed(number))
    assert len(requests_due(run, 1.0)) == 0


def test_last_epoch_of_a_one_trial_run_requests_nothing() -> None:
    before: list[AnyEvent] = [joined(), requested(0), proposed(0), begun(0, 1)]
    losses: list[AnyEvent] = [
        evaluated(0, 2.0 + epoch, 0.5, epoch=epoch + 1) for epoch in range(SCHEDULE["epochs"][0] - 1)
    ]

    assert requests_due(state_after([started(), *before, *losses]), 50.0) == [1]
    assert requests_due(state_after([limited(1), *before, *losses]), 50.0) == []


@pytest.mark.parametrize(
    "fate",
    [
        [TrialFailed(at=3, trial=0, reason="x")],
        [WorkerLost(at=3, worker=0, reason="power"), joined(1, 3)],
    ],
    ids=["failed", "withdrawn with its worker"],
)
def test_trial_that_cannot_finish_leaves_room_for_another(fate: list[AnyEvent]) -> None:
    run = state_after([limited(1), joined(), requested(0), proposed(0)])
    assert requests_due(run, 2.0) == []

    for event in fate:
        evolve(run, event)

    assert requests_due(run, 4.0) == [1]


def test_a_waiting_proposal_is_started_when_its_worker_is_free() -> None:
    run = state_after([started(), joined(), requested(0), proposed(0)])

    assert begun(0, 1.0) in decide(run, 1.0)
    evolve(run, begun(0, 1.0))
    assert not any(isinstance(command, TrialStarted) for command in decide(run, 2.0))
    assert run.workers[0].round == 1


def test_lost_trial_resumes_after_its_saved_epoch_in_its_round() -> None:
    run = state_after(
        one_trial(
            evaluated(0, 5, 0.5),
            interval(0, 5, 6, 40, epoch=2),
            WorkerLost(at=7, worker=0, reason="power"),
            joined(1, 8),
        )
    )

    start = next(command for command in decide(run, 9.0) if isinstance(command, TrialStarted))

    assert start == begun(0, 9.0, attempt=2, worker=1, epoch=2)
    evolve(run, begun(0, 9, attempt=2, worker=1, epoch=2))
    assert run.workers[1].round == 1  # it returned on the same host and continued its rounds


def test_worker_joining_on_another_host_begins_with_round_one() -> None:
    run = state_after(one_trial(joined(1, 3, host="b")))

    assert [c.round for c in decide(run, 4.0) if isinstance(c, ProposalRequested) and c.worker == 1] == [1]


def test_a_trial_lost_as_often_as_the_limit_is_given_up() -> None:
    events = one_trial()
    for attempt in (1, 2, 3):
        events += [TrialLost(at=4, trial=0, attempt=attempt, reason="x")]
        events += [begun(0, 4, attempt=attempt + 1)] if attempt < 3 else []

    assert any(isinstance(c, TrialFailed) and c.trial == 0 for c in decide(state_after(events), 5.0))


def test_a_driver_that_was_killed_is_not_held_against_a_trial() -> None:
    events = one_trial()
    for time in range(5):
        events += [
            RunResumed(schema=1, at=4 + time, down_seconds=0, clock_stepped_back_seconds=0, versions={}, machine={}),
            joined(time + 1, 4 + time),
            begun(0, 4 + time, attempt=time + 2, worker=time + 1),
        ]
    events += [TrialLost(at=10, trial=0, attempt=6, reason="x")]

    assert not any(isinstance(command, TrialFailed) for command in decide(state_after(events), 10.0))


def test_a_silent_worker_is_written_off() -> None:
    run = state_after([started(duration=5000), *one_trial()[1:]])

    assert not any(isinstance(command, WorkerLost) for command in decide(run, 601.0))
    assert any(isinstance(command, WorkerLost) and command.worker == 0 for command in decide(run, 602.0))


def test_message_of_a_written_off_worker_is_ignored() -> None:
    run = state_after(one_trial(WorkerLost(at=5, worker=0, reason="silent")))

    up = events.WorkerJoined(
        worker=0, host="a", ranks=2, device="cpu", device_memory_bytes=1, collective="none", machine={}
    )

    assert interpret(run, up, 6.0) == []
    assert interpret(run, events.WorkerLost(worker=0, reason="again"), 6.0) == []


def test_missing_own_checkpoint_restarts_the_trial() -> None:
    events = one_trial(
        evaluated(0, 5, 0.5), TrialLost(at=6, trial=0, attempt=1, reason="x"), begun(0, 7, attempt=2, epoch=2)
    )
    run = state_after(events)

    received(run, messages.CheckpointGone(trial=0, attempt=2, missing=0, reason="no file"), 8.0)

    assert begun(0, 9.0, attempt=3) in decide(run, 9.0)


def test_missing_parent_fails_the_trial_and_loses_its_role() -> None:
    events = one_trial(
        evaluated(0, 5, 0.5), finished(0, 5, 0.5), requested(1, round=2), proposed(1, 6, parent=0), begun(1, 7)
    )
    run = state_after(events)

    received(run, messages.CheckpointGone(trial=1, attempt=1, missing=0, reason="no file"), 8.0)

    assert run.trials[1].state is TrialState.FAILED and run.trials[0].saved_epoch == 0 and run.workers[0].trial is None


def test_unneeded_checkpoints_outside_the_best_are_dropped() -> None:
    events = one_trial(evaluated(0, 3, 0.01), finished(0, 3, 0.01), requested(1, round=2), proposed(1, 3, parent=0))
    for number in range(2, 35):
        events += whole_trial(number, 4, 5, 0.5)
    run = state_after(events)

    assert not any(isinstance(c, CheckpointDropped) and c.trial == 0 for c in decide(run, 6.0))
    evolve(run, begun(1, 6))
    evolve(run, evaluated(1, 7, 0.6))
    evolve(run, finished(1, 7, 0.6))
    dropped = {c.trial for c in decide(run, 8.0) if isinstance(c, CheckpointDropped)}
    assert 0 in dropped and len(dropped) == 35 - 32


def test_weights_outside_the_best_are_kept_for_a_proposal() -> None:
    events = one_trial(evaluated(0, 3, 0.01), finished(0, 3, 0.01))
    for number in range(1, 34):
        events += whole_trial(number, 4, 5, 0.5)
    events += [requested(34, round=35)]
    run = state_after(events)
    assert any(isinstance(c, CheckpointDropped) and c.trial == 0 for c in decide(run, 6.0))

    evolve(run, proposed(34, 6.0, parent=0))
    assert not any(isinstance(c, CheckpointDropped) and c.trial == 0 for c in decide(run, 6.0))

    evolve(run, begun(34, 6))
    evolve(run, finished(34, 7, 0.02))
    assert any(isinstance(c, CheckpointDropped) and c.trial == 0 for c in decide(run, 8.0))


@pytest.mark.parametrize(("now", "reason"), [(99.9, None), (100.0, "duration"), (200.0, "duration")])
def test_the_run_ends_with_its_declared_time(now: float, reason: str | None) -> None:
    assert [c.reason for c in decide(state_after(one_trial()), now) if isinstance(c, RunEnded)] == (
        [reason] if reason else []
    )


def test_a_doubled_word_that_a_trial_is_prepared_is_one_event() -> None:
    run = state_after(one_trial())
    assert [type(event) for event in received(run, PREPARED, 3.0)] == [TrialPrepared]
    assert received(run, PREPARED, 4.0) == []
    received(run, messages.Crashed(trial=0, attempt=1, reason="x", retry=True), 5.0)
    evolve(run, begun(0, 6.0, attempt=2))
    assert received(run, msgspec.structs.replace(PREPARED, attempt=2), 7.0) != []


def test_late_prepared_message_does_not_shorten_an_interval() -> None:
    run = state_after(one_trial())
    received(run, advanced(0, 1, 10), 5.0)

    received(run, PREPARED, 6.0)
    (progress,) = received(run, advanced(0, 1, 30), 8.0)

    assert isinstance(progress, Progress) and (progress.start, progress.end) == (5.0, 8.0)


def test_only_the_best_checkpoint_that_cannot_grow_is_kept() -> None:
    """Parents are chosen among the others only: 40 full networks at the top leave the weights of one that can grow."""
    events = one_trial(evaluated(0, 3, 0.01), finished(0, 3, 0.01))
    for number in range(1, 41):
        events += whole_trial(number, 4, 5, 0.5 + number % 7 / 100, can_grow=False)
    run = state_after(events)

    dropped = {c.trial for c in decide(run, 6.0) if isinstance(c, CheckpointDropped)}

    assert dropped == set(range(1, 41)) - {6}  # the first of equals
    assert run.retained == {0, 6}


@pytest.mark.parametrize("cause", ["divergence", "memory", "network", "machine"])
def test_a_failed_trial_names_the_cause_of_its_failure(cause: Cause) -> None:
    word = messages.Crashed(trial=0, attempt=1, reason="x", retry=False, cause=cause)

    assert interpret(state_after(one_trial()), word, 5.0) == [TrialFailed(at=5.0, trial=0, reason="x", cause=cause)]


def test_trial_without_its_parents_weights_failed_by_the_machine() -> None:
    (_, failed) = interpret(
        state_after(one_trial()), messages.CheckpointGone(trial=0, attempt=1, missing=7, reason="no file"), 5.0
    )

    assert isinstance(failed, TrialFailed) and failed.cause == "machine"
