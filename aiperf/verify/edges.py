"""The edges of the valid window: workers know them beforehand, and speak at the first step after one.

So where an edge is not where it was when the run was carried out, intervals straddle it that nobody ended for it. Shown by runs
whose intervals are long against a step; where epochs are as short as a word may be late it shows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from aiperf.journal.events import EpochFinished, Progress, RunStarted, Work
from aiperf.verify.attempts import Attempts
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

LAW = "a worker that trains over an edge of the window says so at its first step after it"
LATE_SECONDS = 2.0
"""That a word may take to be heard, besides STEPS of its own: the driver's turns last half a second."""
STEPS = 3.0
SEVERAL = 3
"""Workers that are late together, the most of those that trained: no chance."""
STALLED_SECONDS = 10.0
"""Fewer are late for longer than a driver stands still on a loaded machine."""


class Edges:
    """A check."""

    def __init__(self, attempts: Attempts) -> None:
        self._running = attempts.running
        self._notes = Notes("window edges", LAW, "intervals over an edge")
        self._edge = math.inf
        """The window's beginning; inf: there is no warm-up."""
        self._late: list[tuple[int, float, str]] = []
        """Lines, seconds and words."""

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {RunStarted: self._started, Progress: self._interval, EpochFinished: self._interval}

    def checked(self) -> Checked:
        """See `Check`. One word may be late for many a reason; most of them are not."""
        notes, late = self._notes, self._late
        is_most = 2 * len(late) > notes.examined
        is_moved = is_most and (len(late) >= SEVERAL or max(seconds for _, seconds, _ in late) > STALLED_SECONDS)
        for line, _, found in late:
            notes.add(line, LAW, found, "contradiction" if is_moved else "cannot be determined")
        return notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        if event.warmup_seconds > 0:
            self._edge = event.warmup_seconds

    def _interval(self, line: int, event: Progress | EpochFinished) -> None:
        work: Work | None = event if type(event) is Progress else event.interval
        if work is None or not work.start < self._edge < work.end:
            return  # nearly all
        self._notes.examined += 1
        attempt = self._running[event.trial]
        images = work.training_images + work.validation_images
        step = (work.end - work.start) * min(1.0, attempt.batch_size * attempt.ranks / max(1, images))
        late = work.end - self._edge
        if late > LATE_SECONDS + STEPS * step:
            said = (
                f"trial {event.trial}: its interval goes on for {late:.3f} s after {self._edge:g} s; "
                f"a step is {step:.3f} s"
            )
            self._late.append((line, late, said))
