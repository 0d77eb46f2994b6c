"""Journals of past releases score the same to the last digit, and their proposals can still be made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiperf.books import books
from aiperf.cli.score import as_json
from aiperf.conf import from_plain
from aiperf.events import RunStarted
from aiperf.journal import read
from aiperf.propose import proposer_of
from aiperf.rederive import rederive
from aiperf.score import score

GOLDEN = Path(__file__).parent / "golden"
JOURNALS = sorted(GOLDEN.glob("*.jsonl"))


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_a_recorded_journal_scores_the_same_to_the_last_digit(journal: Path) -> None:
    recorded = json.loads(journal.with_suffix(".score.json").read_text())

    scored = json.loads(json.dumps(as_json(score(books(read(journal))))))

    assert scored == recorded


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_every_proposal_of_a_recorded_journal_is_made_again(journal: Path) -> None:
    events = list(read(journal))
    first = events[0]
    assert isinstance(first, RunStarted)
    conf = from_plain(first.config)

    proposals = list(rederive(events, proposer_of(conf.searcher, conf.hpo)))

    assert proposals and [one.number for one in proposals if not one.is_equal] == []


def test_there_are_recorded_journals() -> None:
    assert JOURNALS
