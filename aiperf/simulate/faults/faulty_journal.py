"""Journal of a simulated run: appends are not flushed to the disk, and faults can make them fail."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import Journal, JournalReading
from aiperf.simulate.model.fault import AppendFailure, DriverKilled, Fault
from aiperf.simulate.model.simulated_executor import SimulatedWorld


class FaultyJournal(Journal):
    """Journal that passes written events to an auditor and fails when a fault requires it."""

    def __init__(
        self,
        path: Path,
        world: SimulatedWorld,
        reading: JournalReading | None = None,
        on_disk: Callable[[Sequence[AnyEvent]], None] | None = None,
    ) -> None:
        super().__init__(path, reading, durable=False)
        self._world = world
        self._on_disk = on_disk
        self._faults = [fault for fault in world.faults if type(fault).appending is not Fault.appending]
        self.down_seconds: float | None = None
        """Seconds until space is freed after a fault filled the disk. None if no fault did."""

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Append like the real journal. If a fault requires it, raise DriverKilled or fail like a full disk."""
        if not events:
            return
        # No fault affects the first line: without it no run could be resumed.
        for fault in self._faults if self.lines else ():
            death = fault.appending(self._world.clock.now(), events)
            if death is not None:
                self.down_seconds = death.down_seconds
                self._die(events, death)
        super().append(events)
        self._show_auditor(events)

    def _way_on(self) -> str:
        return "simulate it again, from its beginning (a simulated run is not resumed)"

    def _show_auditor(self, events: Sequence[AnyEvent]) -> None:
        if self._on_disk is not None:
            self._on_disk(events)

    def _die(self, events: Sequence[AnyEvent], death: AppendFailure) -> None:
        if death.is_disk_full:
            # The real journal writes to a file that takes only a part, so that its own handling of a full disk is used.
            room = int(death.torn_share * 400) + death.whole_lines * 400
            self._file = _FullDisk(self._file, room)  # type: ignore[assignment]  # as much of a file as a journal uses
            super().append(events)
            raise AssertionError("a full disk took everything")
        written = events[: death.whole_lines]
        if written:
            super().append(written)
            self._show_auditor(written)
        torn = msgspec.json.encode(events[min(death.whole_lines, len(events) - 1)])
        self._file.write(torn[: int(death.torn_share * len(torn))])
        raise DriverKilled(death.down_seconds)


class _FullDisk:
    """File on a disk with limited free bytes. The last byte of a write never fits."""

    def __init__(self, file: IO[bytes], room: int) -> None:
        self._file = file
        self._room = room

    def write(self, what: memoryview) -> int:
        """Write a part, as the system call does. Raises OSError if nothing fits."""
        part = what[: min(self._room, len(what) - 1)]
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._room -= len(part)
        return self._file.write(part)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)
