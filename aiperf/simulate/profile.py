"""A cluster's figures, taken from the journal of a real run: what would it do at ten times the size?

Medians over intervals and attempts, so that a straggler or a cold start does not speak for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from statistics import median, pstdev

from aiperf.errors import BadConfiguration
from aiperf.events import (
    AnyEvent,
    Progress,
    RunStarted,
    TrialLost,
    TrialPrepared,
    TrialProposed,
    TrialStarted,
    WorkerJoined,
    WorkerLost,
)
from aiperf.journal import read
from aiperf.plan import run_folder
from cluster.conf import SimulatedConf


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
            case TrialPrepared():
                found.build_seconds.append(event.build_seconds + event.weights_seconds)
                found.compile_seconds.append(event.compile_seconds)
            case Progress():
                training, validation, parameters = operations[event.trial]
                done = event.training_images * training + event.validation_images * validation
                if event.busy_seconds > 0 and done:
                    found.speeds.setdefault(event.worker, []).append(done / (event.busy_seconds * found.ranks))
                    found.input_shares.append(event.input_seconds / event.busy_seconds)
                if event.checkpoint_seconds > 0:
                    found.checkpoint_seconds.append((event.checkpoint_seconds, parameters))
            case WorkerLost() | TrialLost():
                found.losses += 1
            case _:
                pass
    return found


def calibrated(conf: SimulatedConf, run: str, runs: str) -> SimulatedConf:
    """The configuration with what a run's journal shows; workers, links and everything it cannot show stay as configured.

    The speed is that of busy time, in which the exchange of gradients stands already; so links cost nothing any more.

    Raises:
        BadConfiguration: the run is simulated itself, or trained nothing.
        NoSuchRun: there is no such run.
    """
    events = iter(read(run_folder(run, runs)))
    first = next(events)
    assert isinstance(first, RunStarted)
    if first.simulated:
        raise BadConfiguration(f"a profile is taken from a real run; '{run}' is simulated")
    found = profile(events)
    speeds = {worker: median(values) for worker, values in found.speeds.items()}
    if not speeds:
        raise BadConfiguration(f"a profile needs a run that trained; '{run}' holds no progress")
    typical = median(speeds.values())
    spread = pstdev(speeds.values()) / typical if len(speeds) > 1 else conf.speed_spread
    copied = [parameters * 8 / seconds for seconds, parameters in found.checkpoint_seconds]
    losses = [f"worker_lost(rate={min(1.0, found.losses / found.attempts):.4f}, when=any)"] if found.losses else []
    return replace(
        conf,
        accelerators=found.ranks,
        flops=typical,
        memory_bytes=found.memory_bytes,
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
