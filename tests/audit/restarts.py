"""Simulation of a run whose driver dies, with planted faults, an observer and the true work of the workers.

A driver that dies loses its memory. The next one reads the journal like a resumed run and starts with new workers.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from aiperf.drive.driver import Driver
from aiperf.drive.session import SessionState
from aiperf.errors import JournalNotWritten
from aiperf.journal.events import SCHEMA, AnyEvent, ProposalRequested, RunResumed, RunStarted
from aiperf.journal.journal import Journal, JournalReading, read
from aiperf.journal.messages import Message, Order, ProposalFailed, ProposalReturned, Train
from aiperf.simulate.faults import build_faults
from aiperf.simulate.model.simulated_attempt import SimulatedAttempt
from aiperf.simulate.model.simulated_executor import SimulatedExecutor, SimulatedWorld
from cluster.faults import FaultConf
from tests.audit.ground_truth import GroundTruth
from tests.audit.planted_faults import KINDS, AppendFailure, DriverKilled, PlantedFault

MOST_DRIVERS = 200
"""Maximum number of driver starts."""


class Audience:
    """Observer of a simulated run. These methods do nothing."""

    def on_disk(self, events: Sequence[AnyEvent]) -> None:
        """Called after events were written to the journal and before any action follows from them."""

    def after_turn(self, driver: Driver) -> None:
        """Called after each turn of a driver."""

    def before_resume(self, state: SessionState) -> None:
        """Called after a run was read from its journal and before it is resumed."""


def drive(
    world: SimulatedWorld,
    first: RunStarted,
    path: Path,
    *,
    faults: Sequence[FaultConf] | None = None,
    truth: GroundTruth | None = None,
    audience: Audience | None = None,
) -> int:
    """Write the journal to `path`, a new file, and return the number of drivers.

    `faults`: replace those of the cluster. `truth`: record of the true work.
    """
    if faults is not None:
        world.faults = build_faults(faults, world.seed, KINDS)
    simulation = _Simulation(world, path, truth or GroundTruth(), audience or Audience())
    down_seconds = simulation.begin(first)
    while down_seconds is not None:
        assert simulation.drivers < MOST_DRIVERS
        world.clock.advance(round(world.clock.now() + down_seconds, 6))
        down_seconds = simulation.resume()
    return simulation.drivers


class FaultyExecutor(SimulatedExecutor):
    """Executor with planted faults, which records the true work."""

    def __init__(self, world: SimulatedWorld, first_worker: int, restarts: int, truth: GroundTruth) -> None:
        super().__init__(world, first_worker, restarts)
        self._planted = [fault for fault in world.faults if isinstance(fault, PlantedFault)]
        self._truth = truth
        self._asked = 0

    def send(self, order: Order) -> None:
        for fault in self._planted:
            fault.ordered(self, order)
        worker = self.workers.get(order.worker) if isinstance(order, Train) else None
        if isinstance(order, Train) and worker is not None and not worker.is_silent:
            self._truth.ordered(order, worker.attempt)
        super().send(order)

    def messages(self, timeout: float) -> list[Message]:
        words = super().messages(timeout)
        self._truth.received(words)
        return words

    def post(self, word: Message, delay: float = 0.0) -> None:
        answer: Message | None = word
        for fault in self._planted:
            if isinstance(answer, ProposalReturned | ProposalFailed):
                answer = fault.proposed(self._asked, answer)
        if answer is not None:
            for each in self._delays(answer, delay):
                super().post(answer, each)

    def _propose(self, order: ProposalRequested) -> None:
        self._asked = order.worker
        super()._propose(order)

    def _up(self, slot: int) -> None:
        longest = max((fault.holds_back(self, slot) for fault in self._planted), default=0.0)
        if longest > 0:
            self.bring_up(slot, longest)
        else:
            super()._up(slot)

    def _step(self, attempt: SimulatedAttempt, due: float) -> list[Message]:
        heard: list[Message] = []
        for word in super()._step(attempt, due):
            for delay in self._delays(word, 0.0):
                if delay > 0:
                    super().post(word, delay)
                else:
                    heard.append(word)
        return heard

    def _delays(self, word: Message, delay: float) -> list[float]:
        self._truth.sent([word])
        delays = [delay]
        for fault in self._planted:
            delays = [later for earlier in delays for later in fault.delivery_delays(word, earlier)]
        return delays


class FaultyJournal(Journal):
    """Journal that passes written events to an observer and fails when a fault requires it."""

    def __init__(
        self, path: Path, world: SimulatedWorld, audience: Audience, reading: JournalReading | None = None
    ) -> None:
        super().__init__(path, reading, durable=False)
        self._audience = audience
        self._faults = [fault for fault in world.faults if isinstance(fault, PlantedFault)]
        self.down_seconds: float | None = None
        """Seconds until space is freed after a fault filled the disk. None if no fault did."""

    def append(self, events: Sequence[AnyEvent]) -> None:
        """Append like the real journal. If a fault requires it, raise DriverKilled or fail like a full disk."""
        if not events:
            return
        # No fault affects the first line: without it no run could be resumed.
        for fault in self._faults if self.lines else ():
            death = fault.appending(events)
            if death is not None:
                self.down_seconds = death.down_seconds
                self._die(events, death)
        super().append(events)
        self._audience.on_disk(events)

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
            self._audience.on_disk(written)
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


@dataclass(slots=True)
class _Simulation:
    """Drivers of one run. Each returns the seconds until the next driver if it died, or None at the end of the run."""

    world: SimulatedWorld
    path: Path
    truth: GroundTruth
    audience: Audience
    drivers: int = field(default=0)

    def begin(self, first: RunStarted) -> float | None:
        with FaultyJournal(self.path, self.world, self.audience) as journal:
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
        with FaultyJournal(self.path, self.world, self.audience, reader.reading) as journal:
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
            self._drive_once(state, journal)
        except DriverKilled as killed:
            return killed.down_seconds
        except JournalNotWritten:
            if journal.down_seconds is None:
                raise  # the real disk is full
            return journal.down_seconds
        return None

    def _drive_once(self, state: SessionState, journal: FaultyJournal) -> None:
        world = self.world
        executor = FaultyExecutor(world, state.run.next_worker, self.drivers, self.truth)
        self.drivers += 1
        driver = Driver(
            state.run,
            state.work_log,
            state.history,
            journal,
            executor,
            world.clock,
            self.audience.after_turn,
            replay=state.replay,
        )
        try:
            executor.observe(state.observed)
            state.observed.clear()
            executor.start()
            driver.drive()
        finally:
            executor.close()
