"""Simulation of a run to its end, including driver restarts.

A driver that dies loses its memory. The next one reads the journal like a resumed run and starts with new workers.
The journal is not flushed to the disk, and faults can make its appends fail.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from aiperf.drive.driver import Driver
from aiperf.drive.session import SessionState
from aiperf.errors import JournalNotWritten
from aiperf.journal.events import SCHEMA, AnyEvent, RunResumed, RunStarted
from aiperf.journal.journal import Journal, JournalReading, read
from aiperf.simulate.model.fault import AppendFailure, DriverKilled, Fault
from aiperf.simulate.model.simulated_executor import SimulatedExecutor, SimulatedWorld


class FaultyJournal(Journal):
    """Journal that passes written events to an auditor and fails when a fault requires it."""

    def __init__(
        self,
        path: Path,
        world: SimulatedWorld,
        reading: JournalReading | None = None,
        on_disk: Callable[[Sequence[AnyEvent]], None] = lambda events: None,
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
        self._on_disk(events)

    def _way_on(self) -> str:
        return "simulate it again, from its beginning (a simulated run is not resumed)"

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
            self._on_disk(written)
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


INCARNATIONS = 200
"""Maximum number of driver starts. A run with more is ended as a configuration error."""

Around = Callable[[Driver], AbstractContextManager[object]]
"""Return a context manager around a driver's work. At a terminal: the one that makes Ctrl-C end the run properly."""


class Audience:
    """Observer of a simulated run, for checks or for display. These methods do nothing."""

    def on_disk(self, events: Sequence[AnyEvent]) -> None:
        """Called after events were written to the journal and before any action follows from them."""

    def after_turn(self, driver: Driver) -> None:
        """Called after each turn of a driver."""

    def before_resume(self, state: SessionState) -> None:
        """Called after a run was read from its journal and before it is resumed."""


class AfterTurn(Audience):
    """Observer that calls a function with the driver after each of its turns."""

    def __init__(self, call: Callable[[Driver], object]) -> None:
        self._call = call

    def after_turn(self, driver: Driver) -> None:
        self._call(driver)


@dataclass(slots=True)
class SimulationCost:
    """Cost of a simulation in seconds of processor time, independent of other work on the machine."""

    incarnations: int = 0
    events: int = 0
    proposals: int = 0
    seconds: float = 0.0
    executor_seconds: float = 0.0
    """Part of `seconds` for the simulation of the machines, proposals included. The rest is the driver's."""
    proposing_seconds: float = 0.0
    """Part of `executor_seconds` for the searcher. In a real run the workers spend this time."""

    @property
    def driver_seconds(self) -> float:
        """Time for interpreting messages, deciding, checking proposals, keeping state and work log, and writing the journal."""
        return self.seconds - self.executor_seconds


def drive(
    world: SimulatedWorld,
    first: RunStarted,
    path: Path,
    audience: Audience | None = None,
    around: Around = nullcontext,
) -> SimulationCost:
    """Write the journal to `path`, a new file, and return the cost. Each driver works inside of `around`.

    Raises:
        NoWorkers: no worker started in the first minutes.
    """
    began = time.process_time()
    simulation = _Simulation(world, path, audience or Audience(), around)
    down_seconds = simulation.begin(first)
    while down_seconds is not None:
        assert simulation.cost.incarnations < INCARNATIONS, (
            f"{INCARNATIONS} drivers have died: lower the rate of driver_dies and disk_full"
        )
        world.clock.advance(round(world.clock.now() + down_seconds, 6))
        down_seconds = simulation.resume()
    simulation.cost.seconds = time.process_time() - began
    return simulation.cost


@dataclass(slots=True)
class _Simulation:
    """Drivers of one run. Each returns the seconds until the next driver if it died, or None at the end of the run."""

    world: SimulatedWorld
    path: Path
    audience: Audience
    around: Around
    cost: SimulationCost = field(default_factory=SimulationCost)

    def begin(self, first: RunStarted) -> float | None:
        with FaultyJournal(self.path, self.world, on_disk=self.audience.on_disk) as journal:
            journal.append([first])
            return self._drive(SessionState.at(first, self.world.follows), journal, ())

    def resume(self) -> float | None:
        reader = read(self.path)
        lines = iter(reader)
        first = next(lines)
        assert isinstance(first, RunStarted)
        state = SessionState.at(first, self.world.follows)
        for event in lines:
            state.take(event)
        self.audience.before_resume(state)
        if state.run.ended is not None:
            return None  # the driver died after it had written the end of the run
        with FaultyJournal(self.path, self.world, reader.reading, self.audience.on_disk) as journal:
            now = self.world.clock.now()
            resumed = RunResumed(
                schema=SCHEMA,
                at=now,
                down_seconds=now - state.run.at,
                clock_stepped_back_seconds=0.0,
                versions={},
                machine={},
                cut_sha256=None if journal.cut is None else journal.cut.sha256,
            )
            state.take(resumed)
            return self._drive(state, journal, [resumed])

    def _drive(self, state: SessionState, journal: FaultyJournal, opening: Sequence[AnyEvent]) -> float | None:
        """Run one driver. `opening`: its first events, already in the state."""
        try:
            journal.append(opening)
            self._drive_incarnation(state, journal)
        except DriverKilled as killed:
            return killed.down_seconds
        except JournalNotWritten:
            if journal.down_seconds is None:
                raise  # the real disk is full
            return journal.down_seconds
        return None

    def _drive_incarnation(self, state: SessionState, journal: FaultyJournal) -> None:
        world, cost = self.world, self.cost
        executor = SimulatedExecutor(world, state.run.next_worker, cost.incarnations)
        cost.incarnations += 1
        before = state.run.lines
        driver = Driver(
            state.run,
            state.work_log,
            state.history,
            journal,
            executor,
            world.clock,
            self.audience.after_turn,
            agenda=state.agenda,
        )
        try:
            executor.tell(state.observed)
            state.observed.clear()
            executor.start()
            with self.around(driver):
                driver.drive()
        finally:
            executor.close()
            cost.events += state.run.lines - before
            cost.proposals += executor.proposals
            cost.executor_seconds += executor.busy_seconds
            cost.proposing_seconds += executor.proposing_seconds
