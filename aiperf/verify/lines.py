"""Every line of a journal, once: its hash, the laws of reading, and the checks that look at each interval.

What comes of it is made of this one pass: whoever needs a journal's work log here need not read it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiperf.accounting.work_log import WorkLog
from aiperf.errors import JournalDamaged
from aiperf.journal.journal import Reader, folding
from aiperf.verify.attempts import Attempts
from aiperf.verify.check import Check, Handler, Notes
from aiperf.verify.clocks import Clocks
from aiperf.verify.converged import Converged
from aiperf.verify.data_set import OfTheDataSet
from aiperf.verify.edges import Edges
from aiperf.verify.finding import Checked
from aiperf.verify.images import Images
from aiperf.verify.intervals import Intervals
from aiperf.verify.learning_rates import LearningRates
from aiperf.verify.machines import Machines
from aiperf.verify.plan import Plan
from aiperf.verify.presence import Presence
from aiperf.verify.rates import Rates
from aiperf.verify.releases import Releases
from aiperf.verify.weights import Weights

LAW = "every line follows from the one before it by its hash, is an event of its schema, and keeps the laws of reading"


@dataclass(frozen=True, slots=True)
class Lines:
    """What came of reading all lines."""

    work_log: WorkLog
    """Up to the last line that could be read."""
    chain: str
    lines: int
    is_whole: bool
    checked: tuple[Checked, ...]


def read_lines(path: Path) -> Lines:
    """Reads a journal to its end, or to the first line that is damaged.

    Raises:
        NoSuchRun: there is no journal, or nothing in it.
        JournalDamaged: it is of a schema that this release does not read.
    """
    attempts, work_log = Attempts(), WorkLog()
    rates = Rates()
    checks: tuple[Check, ...] = (
        Releases(),
        OfTheDataSet(),
        Plan(),
        Presence(),
        Machines(),
        Clocks(),
        Intervals(attempts),
        Edges(attempts),
        Images(attempts),
        LearningRates(attempts),
        Weights(),
        Converged(work_log),
        rates,
    )
    reading = Notes("reading", LAW, "lines")
    reader = Reader(path)
    try:
        reading.examined = _show(reader, checks, attempts, work_log)
    except JournalDamaged as damage:
        if damage.line is None:
            raise
        reading.examined = damage.line - 1
        reading.not_checked = "all that stands after it"
        reading.add(damage.line, LAW, str(damage))
        return Lines(work_log, "", reading.examined, False, _closed(reading, checks))
    rates.look(work_log)
    end = reader.reading
    if end.warning is not None:
        reading.not_checked = end.warning.text
    return Lines(work_log, end.chain.decode(), reading.examined, True, _closed(reading, checks))


def _closed(reading: Notes, checks: Iterable[Check]) -> tuple[Checked, ...]:
    return (reading.checked(), *(check.checked() for check in checks))


def _show(reader: Reader, checks: Iterable[Check], attempts: Attempts, work_log: WorkLog) -> int:
    """Shows each event to those that look at it; the fold of attempts and the work log take it in afterwards."""
    shown = table(check.handlers() for check in checks)
    taken: Mapping[type, Callable[[Any], None]] = attempts.handlers()
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
    return line


def table(several: Iterable[Mapping[type, Handler]]) -> dict[type, list[Handler]]:
    """Of each kind of event all that look at it, in the order of their checks."""
    shown: dict[type, list[Handler]] = defaultdict(list)
    for handlers in several:
        for kind, handle in handlers.items():
            shown[kind].append(handle)
    return dict(shown)
