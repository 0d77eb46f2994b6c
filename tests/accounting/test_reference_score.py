"""tools/verify_standalone.py, written from docs/benchmark.md alone, agrees with the score to the last digit."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.score import score, window
from aiperf.accounting.windows import share_inside
from aiperf.accounting.work_log import WorkLog, work_log
from aiperf.journal.events import AnyEvent, BatchReduced, TrialLost, WorkerLost
from aiperf.journal.journal import NAME, read
from aiperf.simulate.audit.random_runs import play, random_case
from tests.journals import (
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
from tools.verify_standalone import Run, figures, parsed, verified

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.jsonl"))


def agrees(journal: Path) -> None:
    """Both say the same of a journal, to the last digit."""
    agree(work_log(read(journal)), verified(journal))


def agree(kept: WorkLog, again: dict[str, Any]) -> None:
    """To the last digit; the interval to nine."""
    found = asdict(score(kept))
    interval = again["flops_per_second_interval"]
    assert {name: found[name] for name in EQUAL} == {name: again[name] for name in EQUAL}
    assert found["flops_per_second_interval"] == (
        None if interval is None else pytest.approx(interval, rel=1e-9, abs=1e-9)
    )
    assert again["operations_per_worker"] == per_worker(kept)


def per_worker(kept: WorkLog) -> dict[int, float]:
    """Operations of each worker that count inside the window."""
    rows, inside = kept.intervals, window(kept)
    counted = rows.flops * share_inside(rows.start, rows.end, inside)
    return {int(one): math.fsum(counted[rows.worker == one].tolist()) for one in np.unique(rows.worker)}


EQUAL = (
    "flops_per_second",
    "cumulative_flops_per_second",
    "regulated_flops_per_second",
    "error",
    "window_seconds",
    "trials_finished",
    "rounds",
    "busy_share",
    "wasted_flops",
    "valid",
)


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
    """Both say the same of events, which need not be such that a run could have written them."""
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
def test_both_agree_on_the_best_error_on_evaluations_after_the_window_and_on_attempts_of_fewer_ranks(
    accuracy: float, at: float
) -> None:
    """No error below half an image; none of an evaluation past the declared end; busy time of the ranks that took part."""
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
    """By a later attempt, by a smaller batch, by both in turn, and by an attempt that never got to the epoch."""
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
    """That it agrees would say nothing where all figures were none."""
    every = [verified(journal) for journal in GOLDEN]

    assert all(any(found[name] for found in every) for name in EQUAL)
    assert all(sum(found["operations_per_worker"].values()) > 0 for found in every)


def rounds_of(workers: int, trials: int, seconds: float) -> list[AnyEvent]:
    """Workers that train trial after trial, each of another speed, over the whole of a run of 110 s."""
    events: list[AnyEvent] = [joined(worker, 0.0) for worker in range(workers)]
    for number in range(workers * trials):
        worker, turn = number % workers, number // workers
        at = turn * seconds
        events += [
            requested(number, worker, at=at),
            proposed(number, at=at),
            begun(number, at, worker=worker),
            interval(number, at, at + seconds, 50 + 7 * number % 31, worker=worker),
        ]
    return [started(duration=110.0), *sorted(events, key=lambda event: event.at), ended(110.0)]


@pytest.mark.parametrize(("workers", "trials"), [(1, 50), (3, 20), (16, 3), (17, 1), (15, 3), (2, 5)])
def test_both_agree_on_the_interval_of_batches_of_workers_and_of_too_few_of_either(workers: int, trials: int) -> None:
    events = rounds_of(workers, trials, 110.0 / trials)

    both(events)
    has_sample = trials >= 20 or workers >= 16
    assert (score(work_log(events)).flops_per_second_interval is not None) == has_sample
