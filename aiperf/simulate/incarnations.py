"""Drives a simulated run to its end, through as many incarnations as its drivers' deaths make of it.

A driver that dies is thrown away with everything in its memory. The next one reads the journal, as a resumed run does, and
starts with new workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiperf.drive.driver import Driver
from aiperf.drive.session import Standing
from aiperf.errors import JournalNotWritten
from aiperf.journal.events import SCHEMA, AnyEvent, RunResumed, RunStarted
from aiperf.journal.journal import read
from aiperf.simulate.faults.faulty_journal import FaultyJournal
from aiperf.simulate.model.driver_death import DriverKilled
from aiperf.simulate.model.simulated_executor import SimulatedExecutor, World

INCARNATIONS = 200
"""A run whose drivers die more often than this is ended as a mistake of the configuration."""

Around = Callable[[Driver], AbstractContextManager[object]]
"""Gives a context manager inside of which a driver drives: at a terminal, the one by which Ctrl-C ends the run in order."""


class Audience(Protocol):
    """Who watches a simulated run, to check it or to show it."""

    def on_disk(self, events: Sequence[AnyEvent]) -> None:
        """Events have been written to the journal. Nothing has acted on them yet."""
        ...

    def after_turn(self, driver: Driver) -> None:
        """A driver has finished a turn."""
        ...

    def before_resume(self, standing: Standing) -> None:
        """A run has been read from its journal and is about to be resumed."""
        ...


@dataclass(slots=True)
class Effort:
    """What a simulation cost, in seconds of processor time, which other work on the machine does not change."""

    incarnations: int = 0
    events: int = 0
    proposals: int = 0
    seconds: float = 0.0
    executor_seconds: float = 0.0
    """The part of `seconds` that simulating the machines took, proposals included. The rest is the driver's."""
    proposing_seconds: float = 0.0
    """The part of `executor_seconds` that the searcher took. In a real run the workers do this."""

    @property
    def driver_seconds(self) -> float:
        """Interpreting words, deciding, checking proposals, keeping state and work log, writing the journal."""
        return self.seconds - self.executor_seconds


def drive(
    world: World,
    first: RunStarted,
    path: Path,
    audience: Audience | None = None,
    after_turn: Callable[[Driver], None] | None = None,
    around: Around = nullcontext,
) -> Effort:
    """Writes the journal to `path`, a new file, and gives what that cost. Each driver drives inside of `around`.

    Raises:
        NoWorkers: nothing to train on came up in the first minutes.
    """
    effort, began = Effort(), time.process_time()
    on_disk = None if audience is None else audience.on_disk
    with FaultyJournal(path, world, on_disk=on_disk) as faulty_journal:
        faulty_journal.append([first])
        standing = Standing.at(first, world.follows)
        down_seconds = _drive_incarnation(world, standing, faulty_journal, effort, audience, after_turn, around)
    while down_seconds is not None:
        assert effort.incarnations < INCARNATIONS, (
            f"{INCARNATIONS} drivers have died: lower the rate of driver_dies and disk_full"
        )
        world.clock.advance(round(world.clock.now() + down_seconds, 6))
        down_seconds = _resume(world, path, effort, audience, after_turn, around)
    effort.seconds = time.process_time() - began
    return effort


def _resume(
    world: World,
    path: Path,
    effort: Effort,
    audience: Audience | None,
    after_turn: Callable[[Driver], None] | None,
    around: Around,
) -> float | None:
    reader = read(path)
    lines = iter(reader)
    first = next(lines)
    assert isinstance(first, RunStarted)
    standing = Standing.at(first, world.follows)
    for event in lines:
        standing.take(event)
    if audience is not None:
        audience.before_resume(standing)
    if standing.run.ended is not None:
        return None  # the driver died after it had written that the run is over
    on_disk = None if audience is None else audience.on_disk
    with FaultyJournal(path, world, reader.reading, on_disk) as faulty_journal:
        now = world.clock.now()
        resumed = RunResumed(
            schema=SCHEMA,
            at=now,
            down_seconds=now - standing.run.at,
            clock_stepped_back_seconds=0.0,
            versions={},
            machine={},
            cut_sha256=None if faulty_journal.cut is None else faulty_journal.cut.sha256,
        )
        standing.take(resumed)
        try:
            faulty_journal.append([resumed])
        except DriverKilled as killed:
            return killed.down_seconds
        except JournalNotWritten:
            if faulty_journal.down_seconds is None:
                raise  # no fault filled the disk: it is full
            return faulty_journal.down_seconds
        return _drive_incarnation(world, standing, faulty_journal, effort, audience, after_turn, around)


def _drive_incarnation(
    world: World,
    standing: Standing,
    faulty_journal: FaultyJournal,
    effort: Effort,
    audience: Audience | None,
    after_turn: Callable[[Driver], None] | None,
    around: Around,
) -> float | None:
    """One driver's life. Gives None when the run is over; when the driver died, for how many seconds there is none."""
    executor = SimulatedExecutor(world, standing.run.next_worker, effort.incarnations)
    effort.incarnations += 1
    before = standing.run.lines
    driver = Driver(
        standing.run,
        standing.work_log,
        standing.history,
        faulty_journal,
        executor,
        world.clock,
        _both(audience, after_turn),
        agenda=standing.agenda,
    )
    try:
        executor.tell(standing.observed)
        standing.observed.clear()
        executor.start()
        with around(driver):
            driver.drive()
    except DriverKilled as killed:
        return killed.down_seconds
    except JournalNotWritten:
        if faulty_journal.down_seconds is None:
            raise  # no fault filled the disk: it is full
        return faulty_journal.down_seconds
    finally:
        executor.close()
        effort.events += standing.run.lines - before
        effort.proposals += executor.proposals
        effort.executor_seconds += executor.busy_seconds
        effort.proposing_seconds += executor.proposing_seconds
    return None


def _both(audience: Audience | None, after_turn: Callable[[Driver], None] | None) -> Callable[[Driver], None]:
    def turn(driver: Driver) -> None:
        if audience is not None:
            audience.after_turn(driver)
        if after_turn is not None:
            after_turn(driver)

    return turn
