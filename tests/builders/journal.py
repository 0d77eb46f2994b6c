"""Small journals, written out by hand: the shortest way to a run in a stated condition."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from aiperf.journal.events import (
    SCHEMA,
    AnyEvent,
    EpochFinished,
    GradientCounts,
    Interval,
    Progress,
    ProposalRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    StepsProfiled,
    TrialFinished,
    TrialPrepared,
    TrialProposed,
    TrialStarted,
    WorkerJoined,
)
from aiperf.journal.first_line import config_hash
from aiperf.rules.evolve import replay
from aiperf.rules.state import Run
from morphism import encode, start
from searchers.propose import RULES

LIMITS: dict[str, Any] = {"spares": 1, "attempts": 3, "silence_seconds": 600.0, "rejections": 100, "trials": None}
SCHEDULE: dict[str, Any] = {
    "epochs": [2, 3, 4],
    "patience": 6,
    "patience_step": 2,
    "largest_patience": 20,
    "improvement": 0.001,
    "warmup_rounds": 3,
}


def started(duration: float = 100.0, warmup: float = 10.0, **others: Any) -> RunStarted:
    """Run of 100 s with a window from 10 s on, and 50 validation images."""
    fields: dict[str, Any] = {
        "at": 0.0,
        "schema": SCHEMA,
        "run": "test",
        "started_unix": 1_000_000.0,
        "seed": 0,
        "config": {"limits": LIMITS, "schedule": SCHEDULE},
        "start_graph": json.loads(encode(start("digits_small"))),
        "dataset": {
            "name": "digits",
            "training_images": 100,
            "validation_images": 50,
            "classes": 10,
            "image": 8,
            "channels": 1,
        },
        "duration_seconds": duration,
        "warmup_seconds": warmup,
        "versions": {},
        "machine": {},
        "proposal_rules": RULES,
    }
    fields |= others
    return RunStarted(**{**fields, "config_hash": config_hash(fields["config"]), **others})


def joined(worker: int = 0, at: float = 0.0, ranks: int = 2, host: str = "a") -> WorkerJoined:
    """A worker of two ranks."""
    return WorkerJoined(
        at=at,
        worker=worker,
        host=host,
        ranks=ranks,
        device="cpu",
        device_memory_bytes=1 << 30,
        collective="none",
        machine={},
    )


def requested(
    number: int, worker: int = 0, at: float = 0.0, round: int = 1, starting_network: bool | None = None
) -> ProposalRequested:
    """A request for a proposal."""
    return ProposalRequested(
        at=at,
        number=number,
        worker=worker,
        round=round,
        seed=number,
        position=0,
        starting_network=number == 0 if starting_network is None else starting_network,
    )


def proposed(
    number: int, at: float = 0.0, parent: int | None = None, forward_flops: int = 100, parameters: int = 10
) -> TrialProposed:
    """A proposal of 100 operations forward, 200 backward, 90 in validation, an image."""
    return TrialProposed(
        at=at,
        number=number,
        position=0,
        seed=number,
        searcher="random",
        parent=parent,
        morphs=[],
        batch_size=32,
        kernel_size=None,
        pruned=[],
        fingerprint=f"f{number}",
        forward_flops=forward_flops,
        backward_flops=200,
        validation_flops=90,
        tensor_forward_flops=80,
        tensor_backward_flops=160,
        parameters=parameters,
        seconds=0.0,
    )


def begun(
    trial: int, at: float, attempt: int = 1, worker: int = 0, epoch: int = 1, round_: int = 1, batch_size: int = 32
) -> TrialStarted:
    """Attempt that was sent to a worker."""
    return TrialStarted(
        at=at, trial=trial, attempt=attempt, worker=worker, epoch=epoch, batch_size=batch_size, round=round_
    )


def prepared(trial: int, at: float, attempt: int = 1, compile_seconds: float = 0.0) -> TrialPrepared:
    """Attempt with a built network."""
    return TrialPrepared(
        at=at,
        trial=trial,
        attempt=attempt,
        precision="fp32",
        ranks=2,
        compiled=False,
        build_seconds=0.1,
        weights_seconds=0.1,
        compile_seconds=compile_seconds,
    )


def interval(
    trial: int,
    start: float,
    end: float,
    training: int,
    validation: int = 0,
    *,
    attempt: int = 1,
    epoch: int = 1,
    worker: int = 0,
    busy: float = 0.0,
) -> Progress:
    """Images done between two moments."""
    return Progress(
        at=end,
        worker=worker,
        trial=trial,
        attempt=attempt,
        epoch=epoch,
        start=start,
        end=end,
        training_images=training,
        validation_images=validation,
        busy_seconds=busy,
        communication_seconds=0.0,
        validation_seconds=0.0,
        input_seconds=0.0,
        checkpoint_seconds=0.0,
    )


def evaluated(
    trial: int, at: float, accuracy: float, *, attempt: int = 1, epoch: int = 1, checkpoint: bool = True
) -> EpochFinished:
    """Finished epoch."""
    return EpochFinished(
        at=at,
        trial=trial,
        attempt=attempt,
        epoch=epoch,
        accuracy=accuracy,
        validation_loss=1.0 - accuracy,
        training_loss=1.0,
        learning_rate=0.1,
        checkpoint=checkpoint,
    )


def in_old_form(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The same run as it was written before EpochFinished had an interval: with a Progress line before it instead."""
    run_events: list[AnyEvent] = []
    for event in events:
        match event:
            case EpochFinished(interval=Interval() as last):
                fields = msgspec.structs.asdict(last)
                run_events += [
                    Progress(at=event.at, trial=event.trial, attempt=event.attempt, epoch=event.epoch, **fields),
                    msgspec.structs.replace(event, interval=None),
                ]
            case _:
                run_events.append(event)
    return positioned(run_events)


def finished(trial: int, at: float, accuracy: float, attempt: int = 1) -> TrialFinished:
    """Finished trial."""
    return TrialFinished(
        at=at, trial=trial, attempt=attempt, reason="epochs", accuracy=accuracy, reported_accuracy=accuracy
    )


def one_trial(*after: AnyEvent) -> list[AnyEvent]:
    """Run with trial 0 on its worker from 2 s on, and later events."""
    return positioned([started(), joined(), requested(0), proposed(0), begun(0, 2.0), *after])


def whole_trial(number: int, at: float, end: float, accuracy: float, *, can_grow: bool = True) -> list[AnyEvent]:
    """A trial of one epoch on worker 0, from its proposal to its end."""
    return [
        requested(number, at=at),
        msgspec.structs.replace(proposed(number, at), can_grow=can_grow),
        begun(number, at),
        evaluated(number, end, accuracy),
        finished(number, end, accuracy),
    ]


def positioned(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """The same events with the positions in the journal that a driver writes: how many lines lie before each request."""
    lines: list[AnyEvent] = []
    positions: dict[int, int] = {}
    for event in events:
        if isinstance(event, ProposalRequested):
            positions[event.number] = len(lines)
        if isinstance(event, ProposalRequested | TrialProposed):
            event = msgspec.structs.replace(event, position=positions.get(event.number, event.position))
        lines.append(event)
    return lines


def resumed(at: float = 50.0, **others: Any) -> RunResumed:
    """A driver took the run up again, at once."""
    fields: dict[str, Any] = {
        "at": at,
        "down_seconds": 0.0,
        "clock_stepped_back_seconds": 0.0,
        "versions": {},
        "machine": {},
        "schema": SCHEMA,
    }
    return RunResumed(**{**fields, **others})


def ended(at: float = 100.0, reason: str = "duration") -> RunEnded:
    """The end."""
    return RunEnded(at=at, reason=reason)


def state_after(events: Iterable[AnyEvent]) -> Run:
    """Return the state after a journal's events."""
    *_, (run, _) = replay(events)
    return run


def profiled(trial: int = 0, at: float = 4.0, attempt: int = 1, **others: Any) -> StepsProfiled:
    """Ten traced steps of two ranks on processors, of 0.1 s each."""
    fields: dict[str, Any] = {
        "first_step": 21,
        "steps": 10,
        "seconds": 1.1,
        "reference_steps": 10,
        "reference_seconds": 1.0,
        "profiler_seconds": 0.5,
        "device": "cpu",
        "kernels": {"convolution": 0.6, "batch normalisation": 0.2, "all-reduce": 0.1, "framework": 0.1},
        "ranks": 2,
        "exchange_source": "Horovod timeline",
        "exchange": {"negotiation": 0.02, "memcpy in": 0.01, "all-reduce": 0.06, "memcpy out": 0.01},
        "exchange_bytes": 1_000_000,
        "numbers": {
            "convolution": GradientCounts(
                gradients=1000,
                fp16_zero=20,
                fp16_subnormal=130,
                fp16_infinite=0,
                bf16_zero=0,
                bf16_subnormal=0,
                bf16_infinite=0,
                updates=800,
                lost_updates=200,
            )
        },
    }
    return StepsProfiled(at=at, trial=trial, attempt=attempt, **(fields | others))
