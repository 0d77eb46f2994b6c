"""Simulation of a run to its end: the real driver and journal under a virtual clock, and their processor time."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from aiperf.drive.driver import Driver
from aiperf.drive.session import SessionState
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import Journal
from aiperf.simulate.model.simulated_executor import SimulatedExecutor, SimulatedWorld

Around = Callable[[Driver], AbstractContextManager[object]]
"""Return a context manager around a driver's work. At a terminal: the one that makes Ctrl-C end the run properly."""


class SimulatedJournal(Journal):
    """Journal that is not flushed to the disk."""

    def continuation(self) -> str:
        return "simulate it again, from its beginning (a simulated run is not resumed)"


@dataclass(frozen=True, slots=True)
class SimulationCost:
    """Cost of a simulation in seconds of processor time, independent of other work on the machine."""

    events: int
    proposals: int
    seconds: float
    executor_seconds: float
    """Part of `seconds` for the simulation of the machines, proposals included. The rest is the driver's."""
    proposing_seconds: float
    """Part of `executor_seconds` for the searcher. In a real run the workers spend this time."""

    @property
    def driver_seconds(self) -> float:
        """Processor seconds of the driver: messages, decisions, checks of proposals, state, work log and journal."""
        return self.seconds - self.executor_seconds

    @property
    def proposals_per_second(self) -> float:
        return self.proposals / self.proposing_seconds if self.proposing_seconds else 0.0


def drive(
    world: SimulatedWorld,
    first: RunStarted,
    path: Path,
    after_turn: Callable[[Driver], None] = lambda driver: None,
    around: Around = nullcontext,
) -> SimulationCost:
    """Simulate a run, write its journal to `path`, a new file, and return the cost in processor time.

    Args:
        world: The simulated machines.
        first: First line of the journal.
        path: The journal.
        after_turn: Called with the driver after each of its turns.
        around: Context manager in which the driver works.

    Raises:
        NoWorkers: no worker started in the first minutes.
    """
    began = time.process_time()
    with SimulatedJournal(path, durable=False) as journal:
        journal.append([first])
        state = SessionState.at(first, world.follows)
        executor = SimulatedExecutor(world, state.run.next_worker)
        driver = Driver(
            state.run,
            state.work_log,
            state.history,
            journal,
            executor,
            world.clock,
            after_turn,
            replay=state.replay,
        )
        try:
            executor.start()
            with around(driver):
                driver.drive()
        finally:
            executor.close()
    return SimulationCost(
        events=state.run.lines,
        proposals=executor.proposals,
        seconds=time.process_time() - began,
        executor_seconds=executor.busy_seconds,
        proposing_seconds=executor.proposing_seconds,
    )
