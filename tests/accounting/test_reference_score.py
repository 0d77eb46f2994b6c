"""tools/verify_standalone.py, written from docs/benchmark.md alone, agrees with the score to the last digit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.score import score
from aiperf.accounting.work_log import WorkLog, work_log
from aiperf.journal.events import AnyEvent, BatchReduced, TrialLost, WorkerLost
from aiperf.journal.journal import NAME, read
from tests.audit.random_runs import play, random_case
from tests.builders.journal import (
    LIMITS,
    SCHEDULE,
    begun,
    ended,
    evaluated,
    interval,
    joined,
    one_trial,
    prepared,
    proposed,
    requested,
    resumed,
    started,
)
from tests.builders.second_score import EQUAL, differences
from tools.verify_standalone import Run, figures, parsed, verified

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.jsonl"))


def agrees(journal: Path) -> None:
    """Check that both agree on a journal to the last digit."""
    agree(work_log(read(journal)), verified(journal))


def agree(kept: WorkLog, again: dict[str, Any]) -> None:
    assert differences(kept, again) == {}


@pytest.mark.parametrize("journal", GOLDEN, ids=lambda path: path.stem)
def test_both_agree_on_recorded_journals(journal: Path) -> None:
    agrees(journal)


@pytest.mark.parametrize("seed", range(25))
def test_both_agree_on_simulated_runs_with_faults(tmp_path: Path, seed: int) -> None:
    path = tmp_path / NAME
    path.write_bytes(play(random_case(20_000 + seed)).journal)

    agrees(path)
    whole = path.read_bytes().splitlines(keepends=True)
    for part in (len(whole) // 4, len(whole) // 2, len(whole) - 1):  # also of a run that has not ended
        path.write_bytes(b"".join(whole[:part]))
        agrees(path)


def both(events: list[AnyEvent]) -> None:
    """Check that both agree on events, which need not be possible in a run."""
    again = Run()
    for event in events:
        again.take(parsed(msgspec.json.encode(event)))
    agree(work_log(events), figures(again))


EDGES = [0.0, 10.0, 20.0, 100.0, 10.000000000000002, 99.99999999999999, 100.00000000000001]


@given(st.lists(st.tuples(st.sampled_from(EDGES), st.sampled_from(EDGES), st.integers(0, 100)), max_size=8))
@settings(deadline=None)
def test_both_agree_at_the_edges_of_the_window(spans: list[tuple[float, float, int]]) -> None:
    works = [interval(0, min(a, b), max(a, b), images, busy=max(a, b) - min(a, b)) for a, b, images in spans]

    both(one_trial(*sorted(works, key=lambda work: work.at), evaluated(0, 100.0, 0.7), ended(103.0)))


times = st.floats(2.0, 120.0, allow_subnormal=False)


@given(st.lists(st.tuples(times, st.floats(0.0, 30.0), st.integers(0, 100), st.integers(0, 50)), max_size=30))
@settings(max_examples=200, deadline=None)
def test_both_agree_whatever_the_intervals_are(drawn: list[tuple[float, float, int, int]]) -> None:
    works = [
        interval(0, at, at + length, training, validation, busy=length * 0.9)
        for at, length, training, validation in drawn
    ]

    both(one_trial(prepared(0, 2.0), *sorted(works, key=lambda work: work.at), ended(131.0)))


@pytest.mark.parametrize(("accuracy", "at"), [(1.0, 40.0), (0.7, 100.0), (0.9, 100.5)])
def test_both_agree_on_error_late_evaluations_and_fewer_ranks(accuracy: float, at: float) -> None:
    """The error is at least half an image, and evaluations past the declared end do not count.

    Busy time is of the actual ranks.
    """
    both(
        one_trial(
            msgspec.structs.replace(prepared(0, 2.0), ranks=1),
            interval(0, 2.0, 30.0, 100, 50, busy=27.0),
            evaluated(0, 30.0, 0.3),
            evaluated(0, at, accuracy, epoch=2),
            ended(101.0),
        )
    )


def test_both_agree_on_what_it_is_to_be_begun_again() -> None:
    """Restarts by a later attempt, by a smaller batch, by both in turn, and by an attempt that never reached the epoch."""
    both(
        one_trial(
            interval(0, 10.0, 20.0, 60),
            BatchReduced(at=20.0, trial=0, attempt=1, from_batch_size=32, to_batch_size=24),
            interval(0, 20.0, 30.0, 70),
            TrialLost(at=31.0, trial=0, attempt=1, reason=""),
            begun(0, 32.0, attempt=2),
            interval(0, 33.0, 41.0, 100, 50, attempt=2),
            evaluated(0, 41.0, 0.3, attempt=2),
            interval(0, 41.0, 47.7, 40, attempt=2, epoch=2),
            BatchReduced(at=48.0, trial=0, attempt=2, from_batch_size=24, to_batch_size=16),
            WorkerLost(at=50.0, worker=0, reason=""),
            joined(1, 51.0, ranks=3),
            begun(0, 52.0, attempt=3, worker=1, epoch=2),
            resumed(70.0, down_seconds=18.0),
            joined(2, 70.0, ranks=1),
            begun(0, 71.0, attempt=4, worker=2, epoch=2),
            interval(0, 71.0, 101.3, 33, attempt=4, epoch=2, worker=2, busy=29.1),
            ended(101.3),
        )
    )


def test_the_second_implementation_counts_and_wastes_at_all() -> None:
    """Agreement proves nothing if all figures are None."""
    every = [verified(journal) for journal in GOLDEN]

    assert all(any(found[name] for found in every) for name in EQUAL)
    assert all(sum(found["operations_per_worker"].values()) > 0 for found in every)


LONG = 40_110.0
"""Seconds, with 10 s of warm-up."""


def rounds_of(workers: int, trials: int, step: float = 0.0, networks: int = 1) -> list[AnyEvent]:
    """Return workers of different speeds that train trial after trial during a run of sufficient length.

    Every fifth trial continues with a smaller batch.
    """
    seconds = LONG / trials
    events: list[AnyEvent] = [joined(worker, 0.0) for worker in range(workers)]
    for number in range(workers * trials):
        worker, turn = number % workers, number // workers
        at = turn * seconds
        images = round((50 + 7 * number % 31) * (1 - step if turn > trials / 2 else 1))
        network, batch = number * 5 % 11 % networks, 8 * (1 + number % 3 % networks)
        events += [
            requested(number, worker, at=at),
            proposed(number, at=at, forward_flops=100 + 9 * network, parameters=10 + network**2),
            begun(number, at, worker=worker, batch_size=batch),
            interval(number, at, at + seconds, images, worker=worker),
        ]
        if networks > 1 and number % 5 == 0:
            reduced = BatchReduced(at=at, trial=number, attempt=1, from_batch_size=batch, to_batch_size=batch // 2)
            events.insert(-1, reduced)
    return [started(duration=LONG), *sorted(events, key=lambda event: event.at), ended(LONG)]


@pytest.mark.parametrize(
    ("workers", "trials", "step", "networks", "has_interval"),
    [
        (1, 80, 0.0, 1, True),
        (3, 20, 0.0, 1, True),
        (4, 200, 0.4, 1, False),
        (17, 3, 0.0, 1, False),
        (2, 10, 0.0, 1, True),
        (1, 80, 0.0, 11, True),
        (3, 20, 0.0, 9, True),
        (4, 200, 0.4, 11, False),
        (2, 10, 0.0, 2, True),
    ],
)
def test_both_agree_on_the_interval(workers: int, trials: int, step: float, networks: int, has_interval: bool) -> None:
    events = rounds_of(workers, trials, step, networks)

    both(events)
    found = score(work_log(events))
    assert (found.flops_per_second_interval is not None) == has_interval
    assert not has_interval or ("expected rate" in found.interval_basis) == (networks > 2)


@pytest.mark.parametrize("trials", [1, None])
def test_epochs_are_the_sample_in_a_run_of_one_trial(trials: int | None) -> None:
    seconds = LONG / 80
    epochs = [
        interval(0, seconds * number, seconds * (number + 1), 50 + 7 * number % 31, epoch=number + 1)
        for number in range(80)
    ]
    config = {"limits": {**LIMITS, "trials": trials}, "schedule": SCHEDULE}
    trial: list[AnyEvent] = [joined(), requested(0), proposed(0), begun(0, 0.0)]
    events: list[AnyEvent] = [started(duration=LONG, config=config), *trial, *epochs, ended(LONG)]

    both(events)
    found = score(work_log(events))
    assert (found.flops_per_second_interval is not None) == (trials == 1)
    assert trials == 1 or found.interval_basis == "1.0 trials in a row, and 8 are needed"
