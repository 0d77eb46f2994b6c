"""A trial has one state. An illegal event is refused and changes nothing."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.errors import JournalDamaged
from aiperf.journal.events import (
    AnyEvent,
    BatchReduced,
    CheckpointDropped,
    CheckpointNotWritten,
    CheckpointWritten,
    ProposalRequested,
    RunStarted,
    TrialFailed,
    TrialFinished,
    TrialHeartbeat,
    TrialLost,
    TrialProposed,
    TrialRejected,
    TrialStarted,
    WorkerLost,
)
from aiperf.journal.journal import read
from aiperf.journal.legality import LEGAL, IllegalLine, TrialState
from aiperf.rules.evolve import evolve
from aiperf.rules.proposals import observations
from aiperf.rules.state import Run, begin
from tests.audit.random_runs import play, random_case
from tests.builders.forged_journal import body, hash_chained, lines_of
from tests.builders.journal import (
    begun,
    evaluated,
    finished,
    interval,
    joined,
    prepared,
    profiled,
    proposed,
    requested,
    resumed,
    started,
    state_after,
)

GOLDEN = Path(__file__).parents[1] / "golden"

REACHED: dict[TrialState | None, list[AnyEvent]] = {
    None: [joined()],
    TrialState.REQUESTED: [joined(), requested(0)],
    TrialState.REJECTED: [joined(), requested(0), TrialRejected(at=1.0, number=0, by="searcher", reason="")],
    TrialState.WAITING: [joined(), requested(0), proposed(0)],
    TrialState.RUNNING: [joined(), requested(0), proposed(0), begun(0, 2.0)],
    TrialState.LOST: [
        *(joined(), requested(0), proposed(0), begun(0, 2.0)),
        TrialLost(at=3.0, trial=0, attempt=1, reason=""),
    ],
    TrialState.FINISHED: [joined(), requested(0), proposed(0), begun(0, 2.0), finished(0, 3.0, 0.5)],
    TrialState.FAILED: [joined(), requested(0), proposed(0), TrialFailed(at=3.0, trial=0, reason="")],
    TrialState.WITHDRAWN: [
        *(joined(), requested(0), proposed(0)),
        *(WorkerLost(at=3.0, worker=0, reason=""), joined(1, host="b")),
    ],
}
"""Shortest way of trial 0 to each state."""


def event_of(kind: type[AnyEvent], trial: int = 0, attempt: int = 1, worker: int = 0) -> AnyEvent:
    """Return an event of trial 0 at 4 s."""
    working: dict[str, Any] = {"at": 4.0, "trial": trial, "attempt": attempt}
    made: dict[str, AnyEvent] = {
        "ProposalRequested": requested(trial, worker, at=4.0),
        "TrialProposed": proposed(trial, at=4.0),
        "TrialRejected": TrialRejected(at=4.0, number=trial, by="searcher", reason=""),
        "TrialStarted": begun(trial, 4.0, attempt=attempt, worker=worker),
        "TrialPrepared": prepared(trial, 4.0, attempt),
        "Progress": interval(trial, 3.0, 4.0, 10, attempt=attempt, worker=worker),
        "EpochFinished": evaluated(trial, 4.0, 0.5, attempt=attempt),
        "BatchReduced": BatchReduced(**working, from_batch_size=32, to_batch_size=16),
        "CheckpointWritten": CheckpointWritten(**working, epoch=1),
        "CheckpointNotWritten": CheckpointNotWritten(**working, epoch=1, reason=""),
        "TrialHeartbeat": TrialHeartbeat(**working, doing=""),
        "StepsProfiled": profiled(trial, 4.0, attempt),
        "TrialLost": TrialLost(**working, reason=""),
        "TrialFinished": finished(trial, 4.0, 0.5),
        "TrialFailed": TrialFailed(at=4.0, trial=trial, reason=""),
        "CheckpointDropped": CheckpointDropped(at=4.0, trial=trial, cause="gone", reason=""),
    }
    return made[kind.__name__]


def reaching(state: TrialState | None) -> Run:
    return state_after([started(), *REACHED[state]])


def check(run: Run) -> None:
    """Check that the ordered sets and the workers agree with the states of the trials."""
    of = {state: {trial.number for trial in run.trials.values() if trial.state is state} for state in TrialState}
    assert set(run.running) == of[TrialState.RUNNING] == {worker.trial for worker in run.workers.values()} - {None}
    assert set(run.lost).isdisjoint(run.ending) and {*run.lost, *run.ending} == of[TrialState.LOST]
    assert {one for worker in run.workers.values() for one in worker.waiting} == of[TrialState.WAITING]
    assert set(run.orphaned) <= of[TrialState.WAITING]
    assert not of[TrialState.REQUESTED] and not of[TrialState.REJECTED]
    assert {one for worker in run.workers.values() for one in worker.requested} == set(run.requests)
    assert set(run.idle) == {worker.number for worker in run.workers.values() if worker.trial is None}


FITS = {kind: legal.states for kind, legal in LEGAL.items() if legal.states is not None}
"""Required states of the trial of each event that concerns one."""
PAIRS = [(state, kind) for state in REACHED for kind in FITS]


def name(value: Any) -> str:
    return "unheard" if value is None else value.value if isinstance(value, TrialState) else value.__name__


@pytest.mark.parametrize(("state", "kind"), [one for one in PAIRS if one[0] not in FITS[one[1]]], ids=name)
def test_event_in_a_wrong_state_is_refused(state: TrialState | None, kind: type[AnyEvent]) -> None:
    run = reaching(state)
    before = copy.deepcopy(run)
    event = event_of(kind, worker=max(run.workers))
    recorded = run.state_of(0)

    for taking in (evolve, observations):
        if taking is observations and kind.__name__ in ("Progress", "EpochFinished"):
            continue  # no searcher observes them
        with pytest.raises(IllegalLine) as refused:
            taking(run, event)

        required = " or ".join("not requested" if each is None else each.value for each in FITS[kind])
        current = "not requested" if recorded is None else recorded.value
        assert str(refused.value) == f"{kind.__name__} requires a trial that is {required}. Trial 0 is {current}"
    assert run == before


LEADS_TO = {
    ProposalRequested: TrialState.REQUESTED,
    TrialProposed: TrialState.WAITING,
    TrialRejected: TrialState.REJECTED,
    TrialStarted: TrialState.RUNNING,
    TrialLost: TrialState.LOST,
    TrialFinished: TrialState.FINISHED,
    TrialFailed: TrialState.FAILED,
}
"""State after an event. Other events of FITS do not change the state. A lost worker or a resume withdraws waiting trials and
loses running ones."""


@pytest.mark.parametrize(("state", "kind"), [one for one in PAIRS if one[0] in FITS[one[1]]], ids=name)
def test_a_legal_event_leads_to_the_state_of_the_table(state: TrialState | None, kind: type[AnyEvent]) -> None:
    run = reaching(state)

    evolve(run, event_of(kind, attempt=2 if state is TrialState.LOST else 1))

    assert run.state_of(0) is LEADS_TO.get(kind, state)
    check(run)


EVENTS = st.one_of(
    st.builds(
        event_of,
        st.sampled_from(list(FITS)),
        trial=st.integers(0, 3),
        attempt=st.integers(1, 3),
        worker=st.integers(0, 2),
    ),
    st.builds(joined, st.integers(0, 3), at=st.just(4.0)),
    st.builds(lambda worker: WorkerLost(at=4.0, worker=worker, reason=""), st.integers(0, 3)),
    st.builds(resumed, st.just(4.0)),
    st.builds(lambda number, parent: proposed(number, 4.0, parent), st.integers(0, 3), st.integers(-1, 3)),
    st.builds(started),
)


def legal_steps(run: Run) -> list[AnyEvent]:
    """Return events of which most fit: each trial and request makes one step."""
    steps: list[AnyEvent] = [requested(run.next_number, worker, at=4.0) for worker in run.workers]
    steps += [proposed(number, 4.0) for number in run.requests]
    for trial in run.trials.values():
        steps += [event_of(kind, trial.number, trial.attempt) for kind in FITS if trial.state in FITS[kind]]
        steps += [begun(trial.number, 4.0, trial.attempt + 1, worker) for worker in run.idle]
    return steps


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_events_in_any_order_are_applied_or_refused(data: st.DataObject) -> None:
    run = begin(started())
    for worker in range(2):
        evolve(run, joined(worker))
    for _ in range(25):
        steps = legal_steps(run)
        chosen: st.SearchStrategy[AnyEvent] = st.sampled_from(steps) | EVENTS if steps else EVENTS
        event = data.draw(chosen)
        lines = run.lines
        try:
            observations(run, event)
            evolve(run, event)
        except IllegalLine:
            assert run.lines == lines
        check(run)


def folded(events: Iterable[AnyEvent], seen: Counter[str]) -> Run:
    """Apply every event and check that the sets agree with the states."""
    lines = iter(events)
    first = next(lines)
    assert isinstance(first, RunStarted)
    run = begin(first)
    for event in lines:
        observations(run, event)
        evolve(run, event)
        seen[type(event).__name__] += 1
        check(run)
    seen.update(trial.state.value for trial in run.trials.values())
    return run


def test_every_event_of_a_faulty_run_fits(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()

    for seed in range(13, 25):
        journal = tmp_path / f"{seed}.jsonl"
        journal.write_bytes(play(random_case(seed)).journal)
        folded(read(journal), seen)

    unsaid = {
        "CheckpointWritten",
        "CheckpointNotWritten",
        "TrialHeartbeat",
        "StepsProfiled",
    }  # these simulated workers send no such messages
    assert {kind.__name__ for kind in FITS} - unsaid <= set(seen), seen
    assert {"finished", "failed", "withdrawn", "running"} <= set(seen), seen


@pytest.mark.parametrize("journal", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_event_of_a_recorded_journal_fits(journal: Path) -> None:
    run = folded(read(journal), Counter())

    assert run.finished


def test_the_validator_refuses_what_evolve_refuses(tmp_path: Path) -> None:
    lines = lines_of(GOLDEN.parent / "journal" / "read_by_number.jsonl")[:6]
    journal = tmp_path / "journal.jsonl"
    dropped = {"event": "CheckpointDropped", "at": lines[-1]["at"], "trial": 0, "cause": "gone", "reason": ""}
    journal.write_bytes(hash_chained([*map(body, lines), body(dropped)]))

    with pytest.raises(JournalDamaged, match=r"line 7 of 7: .*CheckpointDropped requires .* Trial 0 is waiting"):
        list(read(journal))
