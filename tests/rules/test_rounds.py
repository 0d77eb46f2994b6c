"""Rounds outlive their workers: losses, resumes and joins under any host name neither lose nor repeat one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from aiperf.journal.events import AnyEvent, TrialStarted, WorkerLost
from aiperf.rules.decide import decide
from aiperf.rules.evolve import evolve
from aiperf.rules.state import Run
from tests.builders.journal import (
    begun,
    finished,
    joined,
    one_trial,
    proposed,
    requested,
    resumed,
    started,
    state_after,
)


def rounds_of(run: Run) -> list[int]:
    """Rounds of the present workers, lowest first."""
    return sorted(worker.round for worker in run.workers.values())


def test_worker_under_another_host_name_continues_the_lost_round() -> None:
    run = state_after(one_trial(resumed(5), joined(1, 6, host="a-new-container")))

    assert run.workers[1].round == 1


def test_worker_on_the_host_of_a_lost_one_takes_its_round() -> None:
    two = [
        started(),
        joined(0, host="a"),
        joined(1, host="b"),
        *(event for round in (1, 2) for event in trial_of(1, number=round, round=round)),
        *trial_of(0, number=3, round=1),
    ]

    run = state_after([*two, resumed(5), joined(2, 6, host="b"), joined(3, 6, host="a")])

    assert (run.workers[2].round, run.workers[3].round) == (2, 1)


def test_two_workers_of_one_host_continue_one_round_each() -> None:
    two = [started(), joined(0, host="a"), joined(1, host="a"), *trial_of(1, number=0, round=1)]

    run = state_after([*two, resumed(5), joined(2, 6, host="a"), joined(3, 6, host="a")])

    assert rounds_of(run) == [0, 1]


def test_worker_on_a_new_host_continues_the_oldest_lost_round() -> None:
    run = state_after(
        [
            started(),
            joined(0, host="a"),
            joined(1, host="b"),
            joined(2, host="a"),
            *trial_of(0, number=0, round=1),
            *(event for round in (1, 2) for event in trial_of(1, number=round, round=round)),
            *(event for round in (1, 2, 3) for event in trial_of(2, number=2 + round, round=round)),
            *(WorkerLost(at=5, worker=worker, reason="power") for worker in (0, 1, 2)),
            *(joined(worker, 6, host=f"new{worker}") for worker in (3, 4, 5)),
        ]
    )

    assert [worker.round for worker in run.workers.values()] == [1, 2, 3]


def trial_of(worker: int, number: int, round: int) -> list[AnyEvent]:
    return [
        requested(number, worker=worker, round=round),
        proposed(number),
        begun(number, 1.0, worker=worker, round_=round),
        finished(number, 2.0, 0.5),
    ]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.sampled_from("abcd")),
        st.tuples(st.just("lose"), st.integers(0, 9)),
        st.tuples(st.just("resume"), st.none()),
        st.tuples(st.sampled_from(["train", "begin"]), st.integers(0, 9)),
    ),
    max_size=60,
)


@given(steps)
def test_no_round_is_lost_or_doubled_by_losses_and_resumes(drawn: list[tuple[str, object]]) -> None:
    """Round k is started once per worker, present or lost, with a successor in round k."""
    run = state_after([started(duration=1e6)])
    begun_rounds: Counter[int] = Counter()
    most_at_once = 0
    for what, which in drawn:
        there = list(run.workers)
        match what:
            case "join":
                evolve(run, joined(run.next_worker, run.at, host=str(which)))
                most_at_once = max(most_at_once, len(run.workers))
            case "lose" if there:
                evolve(run, WorkerLost(at=run.at, worker=there[int(str(which)) % len(there)], reason="power"))
            case "resume":
                evolve(run, resumed(run.at))
            case "train" | "begin" if run.idle:
                number = list(run.idle)[int(str(which)) % len(run.idle)]
                trial = run.next_number
                evolve(run, requested(trial, worker=number, round=run.workers[number].round + 1))
                evolve(run, proposed(trial))
                for start in decide(run, run.at):
                    if isinstance(start, TrialStarted):
                        evolve(run, begun(start.trial, run.at, start.attempt, start.worker, start.epoch, start.round))
                        begun_rounds[run.trials[start.trial].round] += start.attempt == 1
                        if what == "train":
                            evolve(run, finished(start.trial, run.at, 0.5, start.attempt))

    # All sequences of rounds: of present workers, and of lost workers without a successor.
    while len(run.workers) < most_at_once:
        evolve(run, joined(run.next_worker, run.at, host="another"))
    assert begun_rounds == Counter(k for last in rounds_of(run) for k in range(1, last + 1))
