"""Recorded journals score the same to the last digit, and their proposals can be recomputed."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from aiperf.accounting.score import score
from aiperf.accounting.score_texts import score_warnings
from aiperf.accounting.work_log import work_log
from aiperf.config import from_plain
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import read
from aiperf.rules.proposals import proposer_of
from tests.builders.verified_proposals import verify_proposals

GOLDEN = Path(__file__).parents[1] / "golden"
JOURNALS = sorted(GOLDEN.glob("*.jsonl"))


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_a_recorded_journal_scores_the_same(journal: Path) -> None:
    recorded = json.loads(journal.with_suffix(".score.json").read_text())

    kept = work_log(read(journal))
    result = score(kept)
    warnings = [asdict(each) for each in score_warnings(kept, result)]
    scored = json.loads(json.dumps(asdict(result) | {"warnings": warnings}))

    freedom = scored.pop("interval_freedom")  # shown since 0.3.0; it moves no figure
    assert (freedom is None) == (scored["flops_per_second_interval"] is None)
    low, high = scored.pop("regulated_flops_per_second_interval")  # shown since 0.2.0
    assert low < scored["regulated_flops_per_second"] <= high
    assert scored.pop("interval_method") >= recorded.pop("interval_method")  # neither run has an interval
    assert kept.started is not None
    floor = 1.0 / (2 * kept.started.dataset["validation_images"])
    assert scored["error"] == max(1.0 - scored.pop("quality"), floor)
    assert scored == recorded


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_every_proposal_of_a_recorded_journal_is_made_again(journal: Path) -> None:
    events = list(read(journal))
    first = events[0]
    assert isinstance(first, RunStarted)
    conf = from_plain(first.config)

    proposals = list(verify_proposals(events, proposer_of(conf.searcher, conf.hpo)))

    assert proposals and [one.number for one in proposals if not one.is_equal] == []
