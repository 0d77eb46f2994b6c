"""Warnings next to the score of a run."""

from __future__ import annotations

from collections.abc import Iterable

from aiperf.accounting.score import score
from aiperf.accounting.score_texts import score_warnings
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import AnyEvent
from aiperf.run_warning import RunWarning


def warnings_of(events: Iterable[AnyEvent]) -> tuple[RunWarning, ...]:
    folded = work_log(events)
    return score_warnings(folded, score(folded))
