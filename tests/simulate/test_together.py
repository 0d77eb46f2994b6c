"""Many workers that join at once: no architecture is trained twice, and a run whose networks are used up ends and says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aiperf.config import BudgetConf
from aiperf.journal.events import RunEnded, TrialFinished, TrialProposed, TrialRejected, TrialStarted
from aiperf.journal.journal import read
from aiperf.rules.limits import LimitsConf
from aiperf.rules.proposals import proposer_of
from aiperf.rules.verify_proposals import verify_proposals
from benchmarks.distinct import counted, simulated
from cluster.faults import WorkerLostConf
from searchers.searcher_config import MorphismConf
from tests.simulate.test_session import configured, journal


@pytest.mark.parametrize("searcher", ["morphism", "random"])
def test_no_architecture_is_proposed_twice_where_64_workers_join_at_once(searcher: str) -> None:
    counts = simulated(searcher, 64, trials=16, options=["start=resnet20", "hpo=off"])

    assert counts.trials >= 128 and counts.repeats == 0
    # what one worker proposes while another does is refused, and that is all
    assert set(counts.rejected) <= {"its architecture is that of trial " + "N" * digits for digits in (1, 2, 3)}
    assert counts.rejected.total() > 0


@pytest.mark.slow
def test_a_run_whose_budget_holds_few_networks_trains_them_and_ends_with_its_reason(tmp_path: Path) -> None:
    conf = replace(
        configured(workers=16, join_seconds=0.0),
        searcher=MorphismConf(),
        budget=BudgetConf(factor=1.002),
        limits=LimitsConf(rejections=10),
    )

    events = list(read(journal(conf, tmp_path / "journal.jsonl")))

    counts = counted(events)
    last = events[-1]
    assert isinstance(last, RunEnded) and last.reason.startswith("no proposals")
    assert counts.repeats == 0 and counts.trials > 1
    assert any(isinstance(event, TrialRejected) and "raise the budget" in event.reason for event in events)
    assert last.at < 5400  # before its time
    begun = {event.trial for event in events if isinstance(event, TrialStarted)}
    finished = {event.trial for event in events if isinstance(event, TrialFinished)}
    assert finished == begun and len(finished) > 16  # what was begun is trained to its end first


def test_proposals_that_were_made_together_can_be_made_again(tmp_path: Path) -> None:
    """Requests under way are part of what a proposal saw."""
    conf = replace(
        configured(hours=0.5, workers=12, join_seconds=0.0, faults=[WorkerLostConf()]), searcher=MorphismConf()
    )
    path = journal(conf, tmp_path / "journal.jsonl")

    again = list(verify_proposals(read(path), proposer_of(conf.searcher, conf.hpo)))

    assert len(again) >= 24
    assert [one.number for one in again if isinstance(one.recorded, TrialProposed) and not one.is_equal] == []
