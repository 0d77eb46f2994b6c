"""The driver's clock over its deaths: on one boot of its host it goes on by the time since the host booted, to the digit.

The first line and each resume have the time since the host booted beside the journal's own. Whoever shortens, lengthens or
scales the time between them must change both.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiperf.journal.events import RunResumed, RunStarted
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

LAW = "on one boot a run's time goes on by the time since its host booted"
ROUNDING = 1e-6
"""Seconds: a sum of three doubles."""


class Clocks:
    """A check."""

    def __init__(self) -> None:
        self._notes = Notes("clocks", LAW, "resumes")
        self._boot_id: str | None = None
        self._boot_seconds: float | None = None
        self._began = 0.0
        self._last = 0.0
        self._untold = 0

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {RunStarted: self._started, RunResumed: self._resumed}

    def checked(self) -> Checked:
        """See `Check`."""
        if self._untold:
            self._notes.not_checked = (
                f"{self._untold} resumes on another boot, of which the wall clock alone told the time"
            )
        return self._notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        self._boot_id, self._boot_seconds = event.boot_id, event.boot_seconds

    def _resumed(self, line: int, event: RunResumed) -> None:
        if event.boot_id is None or event.boot_id != self._boot_id or self._boot_seconds is None:
            self._untold += 1
        elif event.boot_seconds is not None:
            self._notes.examined += 1
            by_boot = self._began + event.boot_seconds - self._boot_seconds
            before = event.at - event.down_seconds
            if abs(event.at - max(by_boot, before)) > ROUNDING:
                self._notes.add(
                    line, LAW, f"taken up at {event.at!r} s; by the time since the host booted {by_boot!r} s"
                )
        self._boot_id, self._boot_seconds, self._began = event.boot_id, event.boot_seconds, event.at
