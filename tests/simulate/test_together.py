"""Many workers that join at once: no architecture is trained twice, and a run without new networks ends with its reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from aiperf.config import BudgetConf, configure
from aiperf.journal.events import AnyEvent, RunEnded, TrialFinished, TrialProposed, TrialRejected, TrialStarted
from aiperf.journal.journal import read
from aiperf.rules.limits import LimitsConf
from aiperf.rules.proposals import proposer_of
from cluster.faults import WorkerLostConf
from searchers.searcher_config import MorphismConf
from tests.builders.verified_proposals import verify_proposals
from tests.simulate.test_session import configured, journal


@pytest.mark.parametrize("searcher", ["morphism", "random"])
def test_64_joining_workers_never_repeat_an_architecture(searcher: str, tmp_path: Path) -> None:
    words = [
        "+cluster=simulated",
        "cluster.workers=64",
        "cluster.join_seconds=0",
        "schedule=ranking",
        "dataset=imagenet",
    ]
    conf = configure([*words, "start=resnet20", "hpo=off", f"searcher={searcher}", "limits.trials=128"])

    counts = _counted(list(read(journal(conf, tmp_path / "journal.jsonl"))))

    assert counts.trials >= 128 and counts.repeats == 0
    # proposals made at the same time may be refused, without other effects
    assert set(counts.rejected) <= {"its architecture is that of trial " + "N" * digits for digits in (1, 2, 3)}
    assert counts.rejected.total() > 0


@pytest.mark.slow
def test_run_with_few_possible_networks_trains_them_and_ends(tmp_path: Path) -> None:
    conf = replace(
        configured(workers=16, join_seconds=0.0),
        searcher=MorphismConf(),
        budget=BudgetConf(factor=1.002),
        limits=LimitsConf(rejections=10),
    )

    events = list(read(journal(conf, tmp_path / "journal.jsonl")))

    counts = _counted(events)
    last = events[-1]
    assert isinstance(last, RunEnded) and last.reason.startswith("no proposals")
    assert counts.repeats == 0 and counts.trials > 1
    assert any(isinstance(event, TrialRejected) and "Raise the budget" in event.reason for event in events)
    assert last.at < 5400  # before its time
    begun = {event.trial for event in events if isinstance(event, TrialStarted)}
    finished = {event.trial for event in events if isinstance(event, TrialFinished)}
    assert finished == begun and len(finished) > 16  # started trials are trained to their end first


def test_proposals_that_were_made_together_can_be_made_again(tmp_path: Path) -> None:
    """Open requests are part of a proposal's history."""
    conf = replace(
        configured(hours=0.5, workers=12, join_seconds=0.0, faults=[WorkerLostConf()]), searcher=MorphismConf()
    )
    path = journal(conf, tmp_path / "journal.jsonl")

    again = list(verify_proposals(read(path), proposer_of(conf.searcher, conf.hpo)))

    assert len(again) >= 24
    assert [one.number for one in again if isinstance(one.recorded, TrialProposed) and not one.is_equal] == []


@dataclass(frozen=True, slots=True)
class _Counts:
    trials: int
    repeats: int
    """Trials with the architecture of an earlier trial."""
    rejected: Counter[str]
    """Rejections by reason, with digits replaced by N."""


def _counted(events: Sequence[AnyEvent]) -> _Counts:
    proposed = [event.fingerprint for event in events if isinstance(event, TrialProposed)]
    reasons = (event.reason for event in events if isinstance(event, TrialRejected))
    rejected = Counter(re.sub(r"\d", "N", reason) for reason in reasons)
    return _Counts(len(proposed), len(proposed) - len(set(proposed)), rejected)
