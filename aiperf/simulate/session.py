"""Simulated run under a virtual clock, from its options to a complete journal: `python -m aiperf +cluster=simulated …`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from aiperf import interrupts
from aiperf.accounting.work_log import without_cycle_collection
from aiperf.config import RunConf
from aiperf.data.description import DataSet
from aiperf.data.survey import describe_without_files
from aiperf.drive.driver import Driver
from aiperf.drive.session import SessionState
from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted, WorkerShape
from aiperf.journal.journal import NAME, Journal
from aiperf.planning.plan import Plan, first_event, folder_of, make_folder, make_plan
from aiperf.rules.proposals import Proposer, proposer_of
from aiperf.simulate.faults import build_faults
from aiperf.simulate.model.learning_curves import ByOperations, Learning
from aiperf.simulate.model.machine_state import Checkpoints, VirtualClock, memory_of
from aiperf.simulate.model.profile import calibrated, pace, profile_of
from aiperf.simulate.model.simulated_executor import SimulatedExecutor, SimulatedWorld
from aiperf.submission.announced_run import use_announcement
from aiperf.units import count, duration
from cluster.simulated import SimulatedConf
from morphism import cost_of

MOST_EPOCHS = 20_000_000
"""Maximum epochs of a run. The journal of a larger run would fill a disk."""
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
    """Part of `executor_seconds` for the searcher and the counts of its networks. Workers of a real run spend most of it."""

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
    with without_cycle_collection(), SimulatedJournal(path, durable=False) as journal:
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


@dataclass(frozen=True, slots=True)
class Opening:
    """Simulated run that is ready to start: its cluster, its plan and the first line of its journal."""

    conf: SimulatedConf
    plan: Plan
    first: RunStarted


def simulate(opening: Opening, after_turn: Callable[[Driver], None]) -> Path:
    """Simulate a whole run, print its processor time, and return the new folder with its journal."""
    folder = make_folder(folder_of(opening.plan.conf, time.time()))
    first = use_announcement(opening.plan.conf, folder, opening.first)
    world = world_of(opening)
    effort = drive(world, first, folder / NAME, after_turn, lambda driver: interrupts.noted(driver.interrupt))
    # The time of the clock, because a user may have ended the run before its time.
    print(
        f"simulated {duration(world.clock.now())} in {duration(effort.seconds)} of one processor: "
        f"{count(effort.events)} events, {count(effort.proposals)} proposals"
    )
    return folder


def open_run(conf: RunConf, dataset: DataSet | None = None) -> Opening:
    """Return a simulated run that is ready to start, with its plan and the first line of its journal."""
    cluster = conf.cluster
    assert isinstance(cluster, SimulatedConf), "the choice of the group has made it one"
    if conf.resume is not None:
        raise BadConfiguration(
            "a simulated run cannot be resumed: leave resume out. An equal seed gives an equal journal"
        )
    if conf.predict is not None:
        raise BadConfiguration("a prediction is sealed into a real run, and this one is simulated: leave predict out")
    profile = None if cluster.profile is None else profile_of(cluster.profile, conf.runs)
    if profile is not None:
        cluster = calibrated(cluster, profile)
    shape = WorkerShape(
        source="declared, of a simulated cluster",
        device="simulated",
        accelerators=cluster.accelerators,
        ranks=cluster.accelerators,
        cores=0,
        memory_bytes=conf.budget.memory_bytes or cluster.memory_bytes,
    )
    plan = make_plan(replace(conf, cluster=cluster), shape, dataset or describe_without_files(conf.dataset))
    if profile is not None and (ceiling := profile.ceilings.get(plan.network.fingerprint)) is not None:
        cluster = replace(cluster, ceiling=ceiling)  # valid for the same starting graph only
        plan = replace(plan, conf=replace(plan.conf, cluster=cluster))
    memory_of(cluster, conf.trainer, plan.network)  # raises an error if the graph does not fit
    _refuse_endless(cluster, plan)
    return Opening(cluster, plan, first_line(plan))


def first_line(plan: Plan) -> RunStarted:
    """Return the first event of a simulated run's journal. Values that differ between hosts or times are empty or 0."""
    name = plan.conf.name or "simulated"
    return msgspec.structs.replace(first_event(plan, name, 0.0), simulated=True, versions={}, machine={})


def world_of(opening: Opening, proposer: Proposer | None = None, learning: Learning | None = None) -> SimulatedWorld:
    """Return the state of a new simulation: clock, checkpoints, faults and networks."""
    plan, conf = opening.plan, opening.conf
    return SimulatedWorld(
        conf=conf,
        dataset=plan.dataset,
        seed=plan.conf.seed,
        space=plan.space,
        memory=memory_of(conf, plan.conf.trainer, plan.network),
        learning=learning or ByOperations(cost_of(plan.network).training_flops),
        proposer=proposer or proposer_of(plan.conf.searcher, plan.conf.hpo),
        clock=VirtualClock(),
        checkpoints=Checkpoints(plan.conf.trainer.keep_checkpoints_seconds),
        faults=build_faults(conf.faults, plan.conf.seed),
        follows=plan.follows,
    )


def _refuse_endless(conf: SimulatedConf, plan: Plan) -> None:
    data = plan.dataset
    of_start = pace(
        conf, cost_of(plan.network), plan.space.default_batch_size, 1.0, data.training_images, data.validation_images
    )
    epochs = conf.workers * plan.conf.schedule.duration_seconds / of_start.epoch_seconds
    if epochs > MOST_EPOCHS:
        raise BadConfiguration(
            f"an epoch of {data.name} would take {of_start.epoch_seconds:.2g} s on such a worker, and the run would have "
            f"{epochs:.1g} of them, but at most {MOST_EPOCHS:.1g} can be simulated. Take a larger data set (dataset=imagenet), "
            f"a slower accelerator (cluster.flops={conf.flops:.2g} now), fewer workers or a shorter run"
        )
