"""The auditor of simulated runs, on the journal of any run: its laws are those of all runs.

What a simulated run is held to besides (what its workers truly did, the driver's live state) nobody knows of a real one.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiperf.accounting.work_log import work_log
from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.simulate.audit.added_up import check_work_log
from aiperf.simulate.audit.laws import BrokenLaw
from aiperf.simulate.audit.shadow_model import ShadowModel
from aiperf.simulate.audit.true_work import Real
from aiperf.simulate.model.simulated_attempt import Task


def audit(events: Sequence[AnyEvent]) -> ShadowModel:
    """Holds the lines of a real run to the laws, and its score to the work done where it has ended.

    Raises:
        BrokenLaw: at the first line that breaks one, with its number.
    """
    first = events[0]
    assert isinstance(first, RunStarted), "whoever reads a journal has seen to that"
    data = first.dataset
    task = Task(data["training_images"], data["validation_images"], data["classes"])
    shadow = ShadowModel(Real(task))
    for event in events:
        try:
            shadow.take(event)
        except BrokenLaw as broken:
            raise BrokenLaw(broken.law, f"line {shadow.line}: {broken.what}", broken.trial) from broken
    if shadow.ended is not None:
        check_work_log(shadow, task, work_log(events))
    return shadow
