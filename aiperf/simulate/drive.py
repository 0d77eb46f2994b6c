"""Simulation of one run to its end under a virtual clock. The processor time of the simulation is measured."""

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
"""Function that returns a context manager around the main loop, for example one that ends the run after Ctrl-C."""


class SimulatedJournal(Journal):
    """Journal (event log of a run) that is not flushed to the disk."""

    def continuation(self) -> str:
        """Return the advice for the user if the journal could not be written: a simulated run must be started again."""
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
        """Processor seconds of the main loop (driver) without the simulated machines: messages, decisions and journal."""
        return self.seconds - self.executor_seconds

    @property
    def proposals_per_second(self) -> float:
        """Proposals of networks per second of the searcher's processor time. 0 if that time is 0."""
        return self.proposals / self.proposing_seconds if self.proposing_seconds else 0.0


def drive(
    world: SimulatedWorld,
    first: RunStarted,
    path: Path,
    after_turn: Callable[[Driver], None] = lambda driver: None,
    around: Around = nullcontext,
) -> SimulationCost:
    """Simulate a run to its end, write its journal (event log) to the new file `path`, and return the processor time."""
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
