"""Time of requests: late enough for fresh observations, and early enough that no worker waits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aiperf.accounting.work_log import work_log
from aiperf.journal.events import (
    AnyEvent,
    CheckpointDropped,
    ProposalRequested,
    TrialFailed,
    TrialFinished,
    TrialLost,
    TrialRejected,
    TrialStarted,
    WorkerLost,
)
from aiperf.journal.journal import NAME, read
from aiperf.report.fold import collect
from aiperf.rules.decide import decide
from aiperf.rules.evolve import evolve
from aiperf.rules.limits import ScheduleConf
from aiperf.rules.procedure import end_of_trial, nears_its_end
from aiperf.rules.proposals import observations
from aiperf.rules.state import Run
from searchers.history import SpareBegan, WithdrawnTrial
from tests.audit.random_runs import Case, play
from tests.builders.journal import (
    LIMITS,
    SCHEDULE,
    begun,
    evaluated,
    finished,
    joined,
    proposed,
    requested,
    started,
    state_after,
)

FIRST: list[AnyEvent] = [started(), joined(0), requested(0), proposed(0), begun(0, 1.0)]
"""Worker that trains the starting network, for at most 2 epochs."""
KNOWN: list[AnyEvent] = [*FIRST, evaluated(0, 2.0, 0.5), evaluated(0, 3.0, 0.5, epoch=2), finished(0, 3.0, 0.5)]
"""A trial has finished, and its worker is idle."""


def asked(run: Run, now: float = 10.0) -> list[tuple[int, int, bool]]:
    """Return (worker, round, is_spare) of the due requests."""
    return [(c.worker, c.round, c.spare) for c in decide(run, now) if isinstance(c, ProposalRequested)]


def carried_out(run: Run, now: float = 10.0) -> list[AnyEvent]:
    """Return all decisions until none is left, with their events applied like in the driver."""
    done: list[AnyEvent] = []
    while commands := [c for c in decide(run, now) if isinstance(c, ProposalRequested | TrialStarted | TrialFailed)]:
        for command in commands:
            done.append(command)
            evolve(run, command)
    return done


# --- as late as possible

schedules = st.builds(
    lambda epochs, patience, step: ScheduleConf(epochs=sorted(epochs), patience=patience, patience_step=step),
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.integers(1, 8),
    st.integers(0, 2),
)
losses = st.lists(st.floats(0.0, 3.0), max_size=14)


@given(schedules, st.integers(1, 6), losses, st.floats(0.0, 3.0))
def test_trial_that_is_over_was_near_its_end_before(
    procedure: Any, round_: int, before: list[float], last: float
) -> None:
    is_over = end_of_trial(procedure, round_, [*before, last]) is not None

    assert nears_its_end(procedure, round_, before) or not is_over
    if nears_its_end(procedure, round_, before):
        assert end_of_trial(procedure, round_, [*before, float("inf")]) is not None


@given(schedules, st.integers(1, 6), losses)
def test_trial_is_near_its_end_one_epoch_before_its_limits(procedure: Any, round_: int, before: list[float]) -> None:
    best, since = float("inf"), 0
    for loss in before:
        best, since = (loss, 0) if loss < best - procedure.improvement else (best, since + 1)
    limit = procedure.epochs[min(round_, len(procedure.epochs)) - 1]
    patience = min(procedure.patience + procedure.patience_step * (round_ - 1), procedure.largest_patience)

    assert nears_its_end(procedure, round_, before) == (len(before) >= limit - 1 or since >= patience - 1)


def test_no_request_before_the_possible_last_epoch_of_a_trial() -> None:
    run = state_after([started(config={"limits": LIMITS, "schedule": SCHEDULE | {"epochs": [4]}}), *FIRST[1:]])

    for epoch in (1, 2):
        assert asked(run) == []
        evolve(run, evaluated(0, 1.0 + epoch, 0.1 * epoch, epoch=epoch))
    assert asked(run) == []
    evolve(run, evaluated(0, 4.0, 0.3, epoch=3))

    assert asked(run) == [(0, 2, False)]


def test_possible_early_stop_requests_the_next_proposal() -> None:
    run = state_after(
        [started(config={"limits": LIMITS, "schedule": SCHEDULE | {"epochs": [9], "patience": 2}}), *FIRST[1:]]
    )
    evolve(run, evaluated(0, 2.0, 0.5, epoch=1))
    assert asked(run) == []

    evolve(run, evaluated(0, 3.0, 0.5, epoch=2))

    assert asked(run) == [(0, 2, False)]


def test_trial_resumed_in_its_last_epoch_requests_at_once() -> None:
    run = state_after([*FIRST, evaluated(0, 2.0, 0.5), WorkerLost(at=3.0, worker=0, reason="power"), joined(1, 4.0)])

    done = carried_out(run)

    assert [type(c) for c in done] == [TrialStarted, ProposalRequested]
    assert isinstance(done[0], TrialStarted) and (done[0].attempt, done[0].epoch, done[0].round) == (2, 2, 1)


def test_idle_worker_requests_at_once_and_after_a_rejection() -> None:
    run = state_after([started(), joined(0), joined(1)])
    assert asked(run) == [(0, 1, False), (1, 1, False)]

    carried_out(run)
    assert asked(run) == []
    evolve(run, TrialRejected(at=1.0, number=1, by="searcher", reason="nothing"))

    assert asked(run) == [(1, 1, False)]


def test_worker_with_a_lost_trial_has_no_request() -> None:
    run = state_after([*FIRST, TrialLost(at=2.0, trial=0, attempt=1, reason="a rank died")])

    (begins,) = carried_out(run)

    assert isinstance(begins, TrialStarted) and begins.trial == 0


# --- one spare


def test_spare_is_requested_after_the_first_finished_trial() -> None:
    others: list[AnyEvent] = [joined(1, 1.0), requested(1, worker=1), proposed(1, 1.0), begun(1, 1.0, worker=1)]
    run = state_after([*KNOWN[:-1], *others])
    carried_out(run)

    evolve(run, KNOWN[-1])

    # worker 0 is idle with one request and has demand, and worker 1 is in its first epoch of two
    assert asked(run) == [(0, 2, False), (1, 2, True)]
    carried_out(run)
    assert asked(run) == []


def with_a_spare() -> Run:
    """Return a run with trial 1 of two rounds in its first epoch of three, and proposal 2 as spare."""
    return state_after(
        [
            *KNOWN,
            requested(1, round=2),
            proposed(1, 4.0, parent=0),
            begun(1, 4.0, round_=2),
            requested(2, round=3),
            proposed(2),
        ]
    )


def test_a_spare_waits_for_as_long_as_trials_end_as_they_should() -> None:
    run = with_a_spare()

    for epoch in (1, 2, 3):
        evolve(run, evaluated(1, 4.0 + epoch, 0.1 * epoch, epoch=epoch))
        if epoch == 2:
            assert asked(run) == [(0, 3, False)]
            evolve(run, requested(3, round=3))
            evolve(run, proposed(3, 6.5))
        else:
            assert asked(run) == []
    evolve(run, finished(1, 8.0, 0.3))

    assert [(c.trial, c.round) for c in carried_out(run) if isinstance(c, TrialStarted)] == [(3, 3)]
    assert run.workers[0].waiting == [2] and asked(run) == []


def test_started_spare_has_the_next_round_and_is_then_replaced() -> None:
    run = with_a_spare()
    evolve(run, evaluated(1, 5.0, 0.5))
    run.trials[2].round = 2  # as if it had been requested in an earlier round
    evolve(run, TrialFailed(at=6.0, trial=1, reason="it diverged"))

    done = carried_out(run)

    assert isinstance(done[0], TrialStarted) and (done[0].trial, done[0].attempt, done[0].round) == (2, 1, 3)
    assert [(c.round, c.spare) for c in done[1:] if isinstance(c, ProposalRequested)] == [(4, True)] and len(done) == 2
    assert (run.workers[0].round, run.trials[2].round) == (3, 3)


def test_latest_requested_proposal_is_trained_first() -> None:
    run = with_a_spare()
    for event in (evaluated(1, 5.0, 0.1), evaluated(1, 6.0, 0.2, epoch=2), requested(3, round=3), proposed(3, 6.0)):
        evolve(run, event)
    evolve(run, TrialFailed(at=7.0, trial=1, reason="it diverged"))

    (begins,) = carried_out(run)

    assert isinstance(begins, TrialStarted) and begins.trial == 3


def test_late_next_proposal_replaces_the_started_spare() -> None:
    run = with_a_spare()
    for event in (evaluated(1, 5.0, 0.1), evaluated(1, 6.0, 0.2, epoch=2), requested(3, round=3)):
        evolve(run, event)
    evolve(run, evaluated(1, 7.0, 0.3, epoch=3))
    evolve(run, finished(1, 7.0, 0.3))

    (begins,) = carried_out(run)
    evolve(run, proposed(3, 7.5))

    assert isinstance(begins, TrialStarted) and begins.trial == 2
    assert carried_out(run) == [] and run.workers[0].waiting == [3]


def test_starting_network_is_trained_before_later_requests() -> None:
    of_another: list[AnyEvent] = [
        requested(1, worker=1),
        proposed(1),
        begun(1, 1.0, worker=1),
        evaluated(1, 2.0, 0.5),
        finished(1, 2.0, 0.5),
    ]
    run = state_after(
        [*FIRST[:2], joined(1), requested(0), TrialRejected(at=1.0, number=0, by="searcher", reason="x"), *of_another]
    )

    requests = [c for c in decide(run, 3.0) if isinstance(c, ProposalRequested)]

    assert [(c.worker, c.spare, c.starting_network) for c in requests] == [
        (0, False, True),
        (0, True, False),
        (1, False, False),
        (1, True, False),
    ]
    for each in requests[:2]:
        evolve(run, requested(each.number, each.worker, 3.0, each.round, each.starting_network))
    for each in requests[:2]:
        evolve(run, proposed(each.number, 3.0))
    assert begun(requests[0].number, 3.0) in decide(run, 3.0)


def test_spares_keep_weights_and_need_their_parents_file() -> None:
    run = with_a_spare()
    evolve(run, requested(3, round=3))
    evolve(run, proposed(3, 5.0, parent=0))
    evolve(run, CheckpointDropped(at=6.0, trial=0, cause="gone", reason="no such file"))
    evolve(run, TrialFailed(at=6.0, trial=1, reason="its parent's weights are gone"))

    (give_up,) = decide(run, 6.0)

    assert isinstance(give_up, TrialFailed) and give_up.trial == 3
    failed = TrialFailed(at=6.0, trial=3, reason=give_up.reason)
    assert observations(run, failed) == [WithdrawnTrial(3)]  # its architecture is free again
    evolve(run, failed)
    assert [c.trial for c in decide(run, 6.0) if isinstance(c, TrialStarted)] == [2]


# --- round of a trial in all reports


def test_spare_counts_in_the_round_in_which_it_was_trained() -> None:
    events: list[AnyEvent] = [*KNOWN, requested(1, round=2), proposed(1, 4.0), requested(2, round=2), proposed(2, 4.0)]
    run = state_after(events)
    trained: list[AnyEvent] = [
        begun(2, 5.0, round_=2),
        evaluated(2, 6.0, 0.5),
        finished(2, 6.0, 0.5),
        begun(1, 7.0, round_=3),
        evaluated(1, 8.0, 0.5),
        finished(1, 8.0, 0.5),
    ]

    told = []
    for event in trained:
        told += [one for one in observations(run, event) if isinstance(one, SpareBegan)]
        evolve(run, event)

    assert told == [SpareBegan(1, 3)]
    assert [round_ for _, round_ in work_log([*events, *trained]).finished] == [1, 2, 3]
    assert {number: trial.round for number, trial in collect([*events, *trained]).work_log.trials.items()} == {
        0: 1,
        1: 3,
        2: 2,
    }


# --- in runs


def played(tmp_path: Path, case: Case) -> list[AnyEvent]:
    (tmp_path / NAME).write_bytes(play(case).journal)
    return list(read(tmp_path))


def test_only_first_trials_are_proposed_before_one_has_finished(tmp_path: Path) -> None:
    events = played(tmp_path, Case(seed=4, workers=8, workers_per_host=2, seconds=420.0, faults=()))
    first = next(place for place, event in enumerate(events) if isinstance(event, TrialFinished))

    # the last epochs of the others gave no more observations: one request per worker is for the round after
    blind = [e for e in events[:first] if isinstance(e, ProposalRequested)]

    assert {e.round for e in blind if not e.spare} <= {1, 2} and not [e for e in blind if e.spare]
    assert sum(e.round == 1 for e in blind) == 8
    assert most_ahead(events) <= 2


def test_calm_run_makes_no_proposals_beyond_trials_and_spares(
    tmp_path: Path,
) -> None:
    events = played(tmp_path, Case(seed=4, workers=4, workers_per_host=2, seconds=420.0, faults=()))
    requests = [event for event in events if isinstance(event, ProposalRequested)]
    begun_trials = [event for event in events if isinstance(event, TrialStarted)]

    assert 1 <= sum(event.spare for event in requests) <= 4
    assert len(begun_trials) <= len(requests) <= len(begun_trials) + 2 * 4  # the proposals of the workers at the end
    assert len(begun_trials) > 12


def most_ahead(events: Sequence[AnyEvent]) -> int:
    """Return the maximum of waiting and requested proposals of a worker, for runs without rejections and withdrawals."""
    held: dict[int, int] = {}
    most = 0
    for event in events:
        if isinstance(event, ProposalRequested):
            held[event.worker] = held.get(event.worker, 0) + 1
            most = max(most, held[event.worker])
        elif isinstance(event, TrialStarted) and event.attempt == 1:
            held[event.worker] -= 1
    return most
