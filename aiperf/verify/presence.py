"""Workers and the accelerators of their hosts: no more are in use at once on a host than it says that it has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiperf.journal.events import RunResumed, RunStarted, WorkerJoined, WorkerLost
from aiperf.verify.check import Handler, Notes
from aiperf.verify.finding import Checked

LAW = "workers that are there at once on a host have no more ranks than it has accelerators"
DEVICE = "a worker's accelerators are of a model that its host has"
PLAN = "no worker has more ranks than the plan was made for"


class Presence:
    """A check."""

    def __init__(self) -> None:
        self._notes = Notes("workers", LAW, "workers")
        self._present: dict[int, WorkerJoined] = {}
        self._planned: int | None = None
        self._without = 0
        """Workers whose host lists no accelerators."""

    def handlers(self) -> Mapping[type, Handler]:
        """See `Check`."""
        return {
            RunStarted: self._started,
            RunResumed: self._resumed,
            WorkerJoined: self._joined,
            WorkerLost: self._lost,
        }

    def checked(self) -> Checked:
        """See `Check`."""
        if self._without:
            self._notes.not_checked = (
                f"of {self._without} workers: their hosts list no accelerators (processors, or simulated)"
            )
        return self._notes.checked()

    def _started(self, line: int, event: RunStarted) -> None:
        self._planned = None if event.shape is None else event.shape.ranks

    def _resumed(self, line: int, event: RunResumed) -> None:
        self._present.clear()

    def _lost(self, line: int, event: WorkerLost) -> None:
        self._present.pop(event.worker, None)

    def _joined(self, line: int, event: WorkerJoined) -> None:
        notes = self._notes
        notes.examined += 1
        self._present[event.worker] = event
        if self._planned is not None and event.ranks > self._planned:
            notes.add(line, PLAN, f"worker {event.worker} has {event.ranks}; the plan was made for {self._planned}")
        accelerators = _accelerators(event.machine)
        if not accelerators:
            self._without += 1
            return
        models = {str(one.get("model")) for one in accelerators}
        if event.device not in models:
            notes.add(line, DEVICE, f"worker {event.worker} on {event.host}: {event.device!r}, of {sorted(models)}")
        if event.hosts:  # over several hosts: how its ranks lie on them is not reported
            return
        there = [one for one in self._present.values() if one.host == event.host and not one.hosts]
        ranks = sum(one.ranks for one in there)
        if ranks > len(accelerators):
            notes.add(
                line,
                LAW,
                f"{event.host} has {len(accelerators)} accelerators; {ranks} ranks are there, of workers "
                f"{sorted(one.worker for one in there)}",
            )


def _accelerators(machine: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    told = machine.get("accelerators")
    return [one for one in told if isinstance(one, Mapping)] if isinstance(told, list | tuple) else []
