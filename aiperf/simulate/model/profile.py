"""A cluster's figures, taken from the journal of a real run: what would it do at ten times the size?

Medians over intervals and attempts, so that a straggler or a cold start does not speak for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median, pstdev

from aiperf.errors import BadConfiguration
from aiperf.journal.events import (
    AnyEvent,
    CeilingMeasured,
    EpochFinished,
    Progress,
    RunStarted,
    TrialLost,
    TrialPrepared,
    TrialProposed,
    TrialStarted,
    Work,
    WorkerJoined,
    WorkerLost,
)
from aiperf.journal.journal import folding, read
from aiperf.journal.run_folder import run_folder
from aiperf.train.trainer_config import ELEMENT_BYTES
from cluster.faults import WorkerLostConf
from cluster.simulated import SimulatedConf


@dataclass(slots=True)
class Profile:
    """What a journal shows of its machines."""

    ranks: int = 0
    speeds: dict[int, list[float]] = field(default_factory=dict)
    """Of each worker: operations per second of one rank's busy time, exchange included, interval by interval."""
    input_shares: list[float] = field(default_factory=list)
    build_seconds: list[float] = field(default_factory=list)
    """Building and weights."""
    compile_seconds: list[float] = field(default_factory=list)
    checkpoint_seconds: list[tuple[float, int]] = field(default_factory=list)
    """Of an interval that held a checkpoint, with the trial's parameters."""
    join_seconds: list[float] = field(default_factory=list)
    """When each worker of the beginning came up."""
    proposal_seconds: list[float] = field(default_factory=list)
    attempts: int = 0
    losses: int = 0
    """Attempts that ended with their worker, or in it."""
    memory_bytes: int = 0
    precision: str | None = None
    """Of the trials: fp32, tf32, bf16 or fp16."""
    ceilings: dict[str, int] = field(default_factory=dict)
    """The smallest measured one of each starting graph, by its fingerprint: what the run's proposals kept to."""


def profile(events: Iterable[AnyEvent]) -> Profile:
    """One pass over a journal."""
    found = Profile()
    operations: dict[int, tuple[int, int, int]] = {}
    for event in events:
        match event:
            case WorkerJoined():
                found.ranks = event.ranks
                found.memory_bytes = event.device_memory_bytes
                if not found.attempts:
                    found.join_seconds.append(event.at)
            case TrialProposed():
                operations[event.number] = (
                    event.forward_flops + event.backward_flops,
                    event.validation_flops,
                    event.parameters,
                )
                found.proposal_seconds.append(event.seconds)
            case TrialStarted():
                found.attempts += 1
            case CeilingMeasured():
                known = found.ceilings.get(event.family, event.batch_size)
                found.ceilings[event.family] = min(known, event.batch_size)
            case TrialPrepared():
                found.precision = event.precision
                found.build_seconds.append(event.build_seconds + event.weights_seconds)
                found.compile_seconds.append(event.compile_seconds)
            case Progress() | EpochFinished():
                if event.interval is not None:
                    _worked(found, event.interval, operations[event.trial])
            case WorkerLost() | TrialLost():
                found.losses += 1
            case _:
                pass
    return found


def _worked(found: Profile, work: Work, operations: tuple[int, int, int]) -> None:
    """`operations`: of a training image, of a validation image; and the network's parameters."""
    training, validation, parameters = operations
    done = work.training_images * training + work.validation_images * validation
    if work.busy_seconds > 0 and done:
        found.speeds.setdefault(work.worker, []).append(done / (work.busy_seconds * found.ranks))
        found.input_shares.append(work.input_seconds / work.busy_seconds)
    if work.checkpoint_seconds > 0:
        found.checkpoint_seconds.append((work.checkpoint_seconds, parameters))


def profile_of(run: str, runs: str) -> Profile:
    """What the journal of a real run shows.

    Raises:
        BadConfiguration: the run is simulated itself, or trained nothing.
        NoSuchRun: there is no such run.
    """
    reader = read(run_folder(run, runs))
    events = iter(reader)
    first = next(events)
    assert isinstance(first, RunStarted)
    if first.simulated:
        raise BadConfiguration(f"a profile is taken from a real run; '{run}' is simulated")
    with folding(reader):
        found = profile(events)
    if not found.speeds:
        raise BadConfiguration(f"a profile needs a run that trained; '{run}' holds no progress")
    return found


def calibrated(conf: SimulatedConf, found: Profile) -> SimulatedConf:
    """The configuration with what a run's journal shows; workers, links and everything it cannot show stay as configured.

    The speed is that of busy time, in which the exchange of gradients stands already; so links cost nothing any more. The
    ceilings are left to whoever knows the starting graph.
    """
    speeds = {worker: median(values) for worker, values in found.speeds.items()}
    typical = median(speeds.values())
    spread = pstdev(speeds.values()) / typical if len(speeds) > 1 else conf.speed_spread
    copied = [parameters * 8 / seconds for seconds, parameters in found.checkpoint_seconds]
    losses = [WorkerLostConf(rate=round(min(1.0, found.losses / found.attempts), 4))] if found.losses else []
    return replace(
        conf,
        accelerators=found.ranks,
        flops=typical,
        memory_bytes=found.memory_bytes,
        bytes_per_element=conf.bytes_per_element if found.precision is None else ELEMENT_BYTES[found.precision],
        step_seconds=0.0,
        speed_spread=min(1.0, spread),
        overlap=1.0,
        links=[replace(link, latency_seconds=0.0, bytes_per_second=1e18) for link in conf.links],
        input_share=median(found.input_shares),
        join_seconds=median(found.join_seconds) if found.join_seconds else conf.join_seconds,
        build_seconds=median(found.build_seconds) if found.build_seconds else conf.build_seconds,
        weights_bytes_per_second=1e18 if found.build_seconds else conf.weights_bytes_per_second,
        compile_seconds=median(found.compile_seconds) if found.compile_seconds else conf.compile_seconds,
        checkpoint_bytes_per_second=median(copied) if copied else conf.checkpoint_bytes_per_second,
        proposal_seconds=median(found.proposal_seconds) if found.proposal_seconds else conf.proposal_seconds,
        faults=[*conf.faults, *losses],
    )
