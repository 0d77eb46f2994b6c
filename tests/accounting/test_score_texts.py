"""A missing score has a reason and a remedy, for every possible end of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from aiperf.accounting.score import score
from aiperf.accounting.score_texts import NoScore, no_score
from aiperf.accounting.work_log import WorkLog
from aiperf.journal.events import AnyEvent, RunEnded, TrialFailed, WorkerLost, WorkerNotStarted
from aiperf.journal.journal import read
from tests.builders.journal import begun, ended, joined, one_trial, positioned, prepared, proposed, requested, started

GOLDEN = Path(__file__).parents[1] / "golden"
REASONS = ("duration", "interrupted", "no workers", "trials", "no proposals", "corrupt images", "followed")
"""Reasons of RunEnded."""


def reason_of(events: Iterable[AnyEvent]) -> NoScore | None:
    work_log = WorkLog()
    for event in events:
        work_log.take(event)
    return no_score(work_log, score(work_log))


@pytest.mark.parametrize("journal", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_run_cut_anywhere_has_a_score_or_a_reason(journal: Path) -> None:
    work_log, seen = WorkLog(), set()
    for line, event in enumerate(read(journal)):
        work_log.take(event)
        if line % 8 and not isinstance(event, RunEnded):
            continue
        before, at = work_log.ended, work_log.at
        for reason in (None, *REASONS):
            if before is None and reason is not None:
                work_log.ended = RunEnded(at=at, reason=reason)
            found = score(work_log)
            none = no_score(work_log, found)
            assert (none is None) == found.valid
            if none is not None:
                seen.add(none.why)
                assert none.why and none.remedy
                assert "None" not in none.why + none.remedy
        work_log.ended = before

    assert len(seen) > len(REASONS)


@pytest.mark.parametrize("reason", [None, "duration", "no workers"])
@pytest.mark.parametrize("workers", [1, 2])
def test_run_whose_workers_were_lost_names_the_last_loss(reason: str | None, workers: int) -> None:
    events: list[AnyEvent] = [started(), *(joined(worker=worker) for worker in range(workers))]
    events += [
        WorkerLost(at=20.0 + worker, worker=worker, reason=f"rank {worker} was killed") for worker in range(workers)
    ]

    none = reason_of(events if reason is None else [*events, ended(reason=reason)])

    assert none is not None
    which = "its only worker was lost" if workers == 1 else "all its workers were lost. The last"
    assert f"no trial finished: {which}, after {19 + workers} s: rank {workers - 1} was killed" in none.why
    assert f"fix this: rank {workers - 1} was killed" in none.remedy and "more time" not in none.remedy


def test_run_without_a_worker_names_the_host_and_its_reason() -> None:
    failed = WorkerNotStarted(at=5.0, host="10.0.0.7", failures=3, reason="rank 0 ended with status 1: no such device")

    none = reason_of([started(), failed])

    assert none is not None
    assert none.why.startswith("no worker came up. 10.0.0.7: rank 0 ended with status 1: no such device; ")
    assert "logs/" in none.remedy and "resume=" in none.remedy


def test_failed_trials_are_counted_with_the_first_reason() -> None:
    failed = TrialFailed(at=20.0, trial=0, reason="the loss is no number", cause="divergence")

    none = reason_of(one_trial(failed, ended()))

    assert none is not None
    assert none.why == "no trial finished. Trials failed: 1. The first: the loss is no number"


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([started(), joined(), ended()], "no trial began"),
        ([started(), joined(), requested(0), proposed(0), begun(0, 2.0), ended()], "still being prepared"),
        ([*one_trial(prepared(0, 3.0), ended())], "still in training"),
        (
            [started(), joined(), ended(5.0, "interrupted")],
            "interrupted, after 5.0 s; no trial began; its warm-up of 10 s",
        ),
        ([started(), joined()], "the run has not ended"),
    ],
    ids=["no trial", "preparing", "training", "interrupted", "going on"],
)
def test_the_progress_is_printed(events: list[AnyEvent], why: str) -> None:
    none = reason_of(positioned(events))

    assert none is not None
    assert why in none.why


@pytest.mark.parametrize("reason", REASONS[1:])
def test_each_other_end_than_the_declared_time_is_named_in_words(reason: str) -> None:
    none = reason_of([started(), joined(), ended(5.0, reason)])

    assert none is not None
    assert f"({reason})" not in none.why  # that form is for a reason unknown to this release
