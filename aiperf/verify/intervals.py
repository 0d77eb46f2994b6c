"""Time within an attempt: each interval begins where the one before it ended, and ends when its word arrived.

That is how the driver makes them (`aiperf/rules/interpret.py`), exactly, on its own clock: an interval that was added, taken
out, moved or stretched leaves two that do not meet.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiperf.journal.events import EpochFinished, Progress, RunStarted, Work
from aiperf.verify.attempts import Attempts
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

LAW = "an attempt's intervals follow one another without a gap, each to the moment of its line"
PARTS = "exchange and validation are parts of the busy time; it, input and checkpoint are parts of the interval"
PARTS_FROM_RULES = 4
"""Of proposing; drivers of older ones cut each part to the interval alone."""
ROUNDING = 1e-9
"""Seconds that sums of a few numbers may be wrong by, for each second of the interval, and at least."""


class Intervals:
    """A check."""

    def __init__(self, attempts: Attempts) -> None:
        self._running = attempts.running
        self._notes = Notes("intervals", LAW, "intervals")
        self._has_parts = True

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {Progress: self._interval, EpochFinished: self._interval, RunStarted: self._started}

    def checked(self) -> Checked:
        """See `Check`."""
        return self._notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        self._has_parts = event.proposal_rules >= PARTS_FROM_RULES

    def _interval(self, line: int, event: Progress | EpochFinished) -> None:
        work: Work | None = event if type(event) is Progress else event.interval
        if work is None:
            return
        notes, start, end, worked = self._notes, work.start, work.end, self._running[event.trial].worked
        notes.examined += 1
        if start != worked:
            notes.add(line, LAW, f"trial {event.trial}: it begins at {start!r} s; the one before ended at {worked!r} s")
        if end != event.at and end != max(event.at, start):
            notes.add(line, LAW, f"trial {event.trial}: it ends at {end!r} s, in a line of {event.at!r} s")
        length, busy = end - start, work.busy_seconds
        slack = ROUNDING * (1.0 + length)
        if self._has_parts and (
            work.communication_seconds + work.validation_seconds > busy + slack
            or busy + work.input_seconds + work.checkpoint_seconds > length + slack
        ):
            notes.add(
                line,
                PARTS,
                f"trial {event.trial}: {work.communication_seconds!r} and {work.validation_seconds!r} s of {busy!r} s busy; "
                f"{work.input_seconds!r} and {work.checkpoint_seconds!r} s besides, of {length!r} s",
            )
