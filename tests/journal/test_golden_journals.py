"""Recorded journals score the same to the last digit; proposals by the present rules can be made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.cli.score import as_json
from aiperf.config import from_plain
from aiperf.errors import OtherRules
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import read
from aiperf.rules.proposals import proposer_of
from aiperf.rules.verify_proposals import verify_proposals
from searchers.propose import RULES

GOLDEN = Path(__file__).parents[1] / "golden"
JOURNALS = sorted(GOLDEN.glob("*.jsonl"))
INTERVALS = GOLDEN / "intervals.json"
"""By the present method, of journals whose scores were recorded by method 1. A statistic beside the score and no part of it."""
INTERVAL = ("flops_per_second_interval", "interval_method", "interval_basis")


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_a_recorded_journal_scores_the_same_to_the_last_digit(journal: Path) -> None:
    recorded = json.loads(journal.with_suffix(".score.json").read_text())
    recorded_interval = {name: recorded.pop(name) for name in INTERVAL if name in recorded}

    scored = json.loads(json.dumps(as_json(score(work_log(read(journal))))))

    interval = {name: scored.pop(name) for name in INTERVAL}
    freedom = scored.pop("interval_freedom")  # shown since 0.3.0; it moves no figure
    assert (freedom is None) == (interval["flops_per_second_interval"] is None)
    assert scored == recorded
    assert interval == json.loads(INTERVALS.read_text()).get(journal.stem, recorded_interval)


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_every_proposal_of_a_recorded_journal_is_made_again_or_was_made_by_other_rules(journal: Path) -> None:
    events = list(read(journal))
    first = events[0]
    assert isinstance(first, RunStarted)
    conf = from_plain(first.config)
    again = verify_proposals(events, proposer_of(conf.searcher, conf.hpo))

    if first.proposal_rules != RULES:
        with pytest.raises(
            OtherRules, match=rf"version {first.proposal_rules}, .* version {RULES}. Install the aiperf"
        ):
            next(again)
        return
    proposals = list(again)

    assert proposals and [one.number for one in proposals if not one.is_equal] == []


def test_a_journal_of_the_present_rules_is_among_them() -> None:
    firsts = [next(iter(read(journal))) for journal in JOURNALS]

    assert RULES in {first.proposal_rules for first in firsts if isinstance(first, RunStarted)}
