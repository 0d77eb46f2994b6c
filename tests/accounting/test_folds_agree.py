"""The state of a run and its work log follow the same events independently and agree on workers and trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from aiperf.accounting.work_log import WorkLog
from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import NAME, read
from aiperf.journal.legality import TrialState
from aiperf.rules.evolve import replay
from aiperf.rules.state import Run
from tests.audit.random_runs import play, random_case

GOLDEN = Path(__file__).parents[1] / "golden"

OUTCOMES = {
    "waiting": (TrialState.WAITING, TrialState.WITHDRAWN),
    "training": (TrialState.RUNNING,),
    "lost": (TrialState.LOST,),
    "failed": (TrialState.FAILED,),
}
"""Outcomes in the work log. Any other value is the reason of a finished trial."""


def agree(run: Run, work_log: WorkLog) -> None:
    """Compare present workers with their times and trials, and the outcome, places and attempts of each trial."""
    there = {one.worker: one for one in work_log.presences if one.left is None}
    assert {number: (one.host, one.device, one.ranks, one.joined, one.trial) for number, one in there.items()} == {
        number: (one.host, one.device, one.ranks, one.joined, one.trial) for number, one in run.workers.items()
    }
    assert {one.worker for one in work_log.presences} == {*run.workers, *run.departed}
    assert work_log.trials.keys() == run.trials.keys()
    for number, record in work_log.trials.items():
        trial = run.trials[number]
        assert trial.state in OUTCOMES.get(record.outcome, (TrialState.FINISHED,)), number
        assert (record.round, record.attempts) == (trial.round, trial.attempt), number
        assert record.is_of_start == (trial.parent is None and not trial.morphs), number
        assert trial.worker in (None, record.worker), number
        assert (record.ended is None) == (record.outcome in ("waiting", "training")), number
    assert (len(work_log.finished), work_log.failed, work_log.at) == (run.finished, run.failed, run.at)
    assert (None if work_log.ended is None else work_log.ended.reason) == run.ended


def followed(events: Iterable[AnyEvent], every: int, seen: Counter[str]) -> None:
    """Compare both before every `every`-th event and after the last."""
    work_log = WorkLog()
    before = None
    for line, (run, event) in enumerate(replay(events)):
        if before is not None and line % every == 0:
            agree(run, work_log)
            seen.update({record.outcome for record in work_log.trials.values()})
        work_log.take(event)
        before = run
    assert before is not None
    agree(before, work_log)
    seen["left"] += sum(one.left is not None for one in work_log.presences)


@pytest.mark.parametrize("journal", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_state_and_work_log_agree_on_a_recorded_journal(journal: Path) -> None:
    followed(read(journal), 1, Counter())


def test_state_and_work_log_say_the_same_of_runs_full_of_faults(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()

    for seed in range(61_000, 61_006):
        journal = tmp_path / NAME
        journal.write_bytes(play(random_case(seed)).journal)
        followed(read(journal), 5, seen)

    assert {"waiting", "training", "lost", "failed", "epochs", "left"} <= {
        name for name, times in seen.items() if times
    }
