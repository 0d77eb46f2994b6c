"""Audit of the journal of any run, by the laws that hold for all runs.

The true work of the workers and the driver's live state are unknown for a real run and not checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiperf.accounting.work_log import work_log
from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.simulate.study.predict import data_of
from tests.audit.added_up import check_work_log
from tests.audit.laws import BrokenLaw
from tests.audit.shadow_model import ShadowModel
from tests.audit.true_work import Real


def audit(events: Sequence[AnyEvent]) -> ShadowModel:
    """Check the lines of a real run, and its score if it has ended.

    Raises:
        BrokenLaw: at the first line that breaks a law, with its number.
    """
    first = events[0]
    assert isinstance(first, RunStarted), "whoever reads a journal has seen to that"
    data = first.dataset
    task = data_of(data)
    shadow = ShadowModel(Real(task))
    for event in events:
        try:
            shadow.take(event)
        except BrokenLaw as broken:
            raise BrokenLaw(broken.law, f"line {shadow.line}: {broken.details}", broken.trial) from broken
    if shadow.ended is not None:
        check_work_log(shadow, task, work_log(events))
    return shadow
