"""The journal of a simulated run: written without flushing each append to the disk, and broken where a fault says so."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import Journal, Reading
from aiperf.simulate.model.driver_death import Death, DriverKilled
from aiperf.simulate.model.fault import Fault
from aiperf.simulate.model.simulated_executor import World


class FaultyJournal(Journal):
    """A journal with an ear: an auditor is shown what stands on disk."""

    def __init__(
        self,
        path: Path,
        world: World,
        reading: Reading | None = None,
        on_disk: Callable[[Sequence[AnyEvent]], None] | None = None,
    ) -> None:
        super().__init__(path, reading, durable=False)
        self._world = world
        self._on_disk = on_disk
        self._faults = [fault for fault in world.faults if type(fault).appending is not Fault.appending]
        self.down_seconds = 0.0
        """After a full disk: how long until there is room."""

    def append(self, events: Sequence[AnyEvent]) -> None:
        """As the real one; or it dies of a fault, with DriverKilled or as a full disk would have it."""
        if not events:
            return
        # The first line is the incarnation's own: a run without it has not begun.
        for fault in self._faults if self.lines else ():
            death = fault.appending(self._world.clock.now(), events)
            if death is not None:
                self.down_seconds = death.down_seconds
                self._die(events, death)
        super().append(events)
        self._stands(events)

    def _stands(self, events: Sequence[AnyEvent]) -> None:
        if self._on_disk is not None:
            self._on_disk(events)

    def _die(self, events: Sequence[AnyEvent], death: Death) -> None:
        if death.is_disk_full:
            # Real writing on a disk that takes a part: what is done about it is the journal's own affair.
            room = int(death.torn_share * 400) + death.whole_lines * 400
            self._file = _FullDisk(self._file, room)  # type: ignore[assignment]  # as much of a file as a journal uses
            super().append(events)
            raise AssertionError("a full disk took everything")
        written = events[: death.whole_lines]
        if written:
            super().append(written)
            self._stands(written)
        torn = msgspec.json.encode(events[min(death.whole_lines, len(events) - 1)])
        self._file.write(torn[: int(death.torn_share * len(torn))])
        raise DriverKilled(death.down_seconds)


class _FullDisk:
    """A file on a disk with room for so many bytes more; whatever is written, its last byte does not fit."""

    def __init__(self, file: IO[bytes], room: int) -> None:
        self._file = file
        self._room = room

    def write(self, what: memoryview) -> int:
        """A part, as the system call does; then OSError."""
        part = what[: min(self._room, len(what) - 1)]
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._room -= len(part)
        return self._file.write(part)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)
