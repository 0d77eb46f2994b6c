"""One pass over all lines: hashes, rules of reading, the checks of intervals, and the work log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiperf.accounting.work_log import WorkLog
from aiperf.errors import JournalDamaged
from aiperf.journal.events import TrialProposed, TrialRejected
from aiperf.journal.journal import Reader, folding
from aiperf.verify.attempts import Attempts
from aiperf.verify.check import Check, CheckResult, handlers
from aiperf.verify.epochs import Images, LearningRates, Weights
from aiperf.verify.machines import Machines, Presence, Rates
from aiperf.verify.plan import PlanCheck, PredictedScore, RecordedDataSet
from aiperf.verify.times import Clocks, Edges, Intervals, Silences

LAW = "every line has the hash that follows from the previous line, is an event of the schema, and keeps the rules of reading"


@dataclass(frozen=True, slots=True)
class Lines:
    work_log: WorkLog
    """Work up to the last readable line."""
    chain: str
    """Hash of the last line. Empty if a line is damaged."""
    lines: int
    answered: tuple[int, ...]
    """Numbers of the accepted and rejected proposals, in the journal's order."""
    is_whole: bool
    """True if no line is damaged."""
    checked: tuple[CheckResult, ...]


def read_lines(path: Path) -> Lines:
    """Read to the end or to the first damaged line, which is a finding. Raise JournalDamaged for another schema."""
    attempts, work_log = Attempts(), WorkLog()
    rates = Rates()
    checks: tuple[Check, ...] = (
        RecordedDataSet(),
        PlanCheck(),
        PredictedScore(),
        Presence(),
        Machines(),
        Clocks(),
        Intervals(attempts),
        Edges(attempts),
        Images(attempts),
        LearningRates(attempts),
        Silences(attempts, work_log),
        Weights(),
        rates,
    )
    answered: list[int] = []
    reading = CheckResult("reading", LAW, "lines")
    reader = Reader(path)
    try:
        reading.examined = _show(reader, checks, attempts, work_log, answered)
    except JournalDamaged as damage:
        if damage.line is None:
            raise
        reading.examined = damage.line - 1
        reading.not_checked = "all lines after it"
        reading.add(damage.line, str(damage))
        return Lines(work_log, "", reading.examined, (), False, _closed(reading, checks))
    rates.add_work(work_log)
    end = reader.reading
    if end.warning is not None:
        reading.not_checked = end.warning.text
    return Lines(work_log, end.chain.decode(), reading.examined, tuple(answered), True, _closed(reading, checks))


def _closed(reading: CheckResult, checks: Iterable[Check]) -> tuple[CheckResult, ...]:
    return (reading.close(), *(check.checked() for check in checks))


def _show(reader: Reader, checks: Iterable[Check], attempts: Attempts, work_log: WorkLog, answered: list[int]) -> int:
    shown: dict[type, list[Callable[[int, Any], None]]] = defaultdict(list)
    for check in checks:
        for kind, handle in handlers(check):
            shown[kind].append(handle)
    taken = dict(handlers(attempts))
    take = work_log.take
    line = 0
    with folding(reader):
        for line, event in enumerate(reader, 1):
            kind = type(event)
            for handle in shown.get(kind, ()):
                handle(line, event)
            take(event)
            if kind in taken:
                taken[kind](event)
            elif isinstance(event, TrialProposed | TrialRejected):
                answered.append(event.number)
    return line
