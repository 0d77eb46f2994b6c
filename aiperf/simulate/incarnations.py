"""Drives a simulated run to its end, through as many incarnations as its drivers' deaths make of it.

A driver that dies is thrown away with all that it held; the next one reads the journal, as a resumed run does, and finds
new workers.
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
"""More deaths of drivers than this are no run any more."""

Around = Callable[[Driver], AbstractContextManager[object]]
"""What stands around a driver while it drives: how Ctrl-C ends it, for one."""


class Audience(Protocol):
    """Who watches a simulated run, to check it or to show it."""

    def on_disk(self, events: Sequence[AnyEvent]) -> None:
        """Events stand in the journal, and nothing has acted on them yet."""
        ...

    def after_turn(self, driver: Driver) -> None:
        """A driver has finished a turn."""
        ...

    def before_resume(self, standing: Standing) -> None:
        """A run was read from its journal, to be taken up."""
        ...


@dataclass(slots=True)
class Effort:
    """What a simulation cost, in processor seconds: other work on the machine stands in none of them."""

    incarnations: int = 0
    events: int = 0
    proposals: int = 0
    seconds: float = 0.0
    executor_seconds: float = 0.0
    """Of the seconds: the simulated machines, proposals included. The rest is the driver's."""
    proposing_seconds: float = 0.0
    """Of the executor's: the searchers' work, which a real run does on its workers."""

    @property
    def driver_seconds(self) -> float:
        """Hearing, deciding, checking proposals, keeping state and work log, writing the journal."""
        return self.seconds - self.executor_seconds


def drive(
    world: World,
    first: RunStarted,
    path: Path,
    audience: Audience | None = None,
    after_turn: Callable[[Driver], None] | None = None,
    around: Around = nullcontext,
) -> Effort:
    """Writes the journal at `path`, which is not there yet; gives what it cost. Each driver drives inside of `around`.

    Raises:
        NoWorkers: nothing to train on came up in the first minutes.
    """
    effort, began = Effort(), time.process_time()
    on_disk = None if audience is None else audience.on_disk
    with FaultyJournal(path, world, on_disk=on_disk) as faulty_journal:
        faulty_journal.append([first])
        standing = Standing.at(first)
        died_of = _sit(world, standing, faulty_journal, effort, audience, after_turn, around)
    while died_of is not None:
        assert effort.incarnations < INCARNATIONS, (
            f"{INCARNATIONS} drivers have died: lower the rate of driver_dies and disk_full"
        )
        world.clock.advance(round(world.clock.now() + died_of, 6))
        died_of = _resume(world, path, effort, audience, after_turn, around)
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
    standing = Standing.at(first)
    for event in lines:
        standing.take(event)
    if audience is not None:
        audience.before_resume(standing)
    if standing.run.ended is not None:
        return None  # it died after its last word
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
            return faulty_journal.down_seconds
        return _sit(world, standing, faulty_journal, effort, audience, after_turn, around)


def _sit(
    world: World,
    standing: Standing,
    faulty_journal: FaultyJournal,
    effort: Effort,
    audience: Audience | None,
    after_turn: Callable[[Driver], None] | None,
    around: Around,
) -> float | None:
    """None: the run is over; else how long nobody drives it."""
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
    )
    try:
        executor.tell(standing.told)
        standing.told.clear()
        executor.start()
        with around(driver):
            driver.drive()
    except DriverKilled as killed:
        return killed.down_seconds
    except JournalNotWritten:
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
