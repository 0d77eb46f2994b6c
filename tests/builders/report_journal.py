"""Event lists of runs that look like real ones, for trying the report: a few workers in detail, or thousands quickly.

Learning curves and speeds are invented, architectures of small runs are real (rebuilt through `morphism`), so that
the report can draw them. Events come out in the journal's order.
"""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from aiperf.config import RunConf, as_plain
from aiperf.data.dataset_config import DigitsConf
from aiperf.journal.events import (
    SCHEMA,
    AnyEvent,
    BatchReduced,
    EpochFinished,
    Interval,
    Progress,
    ProposalRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    TrialFinished,
    TrialPrepared,
    TrialProposed,
    TrialRejected,
    TrialStarted,
    WorkerJoined,
    WorkerLost,
    WorkerShape,
)
from aiperf.journal.first_line import config_hash
from aiperf.rules.limits import ScheduleConf
from aiperf.rules.search_space import bounds, recorded
from morphism import Budget, Graph, apply, cost, encode_morph, legal, start
from morphism.codec import encode
from searchers.history import Space
from searchers.propose import RULES
from searchers.searcher_config import MorphismConf, TpeConf
from tests.builders.journal import positioned

VERSIONS = {"aiperf-cluster": "0.1.0", "torch": "2.13.0", "horovod": "0.28.1", "ray": "2.60.0", "optuna": "5.0.0"}
MACHINE: dict[str, Any] = {
    "host": "desk",
    "cpu_model": "AMD EPYC 9R14",
    "cores": 2,
    "processors": 2,
    "usable_processors": 2,
    "memory_bytes": 24_000_000_000,
    "os": "Debian GNU/Linux 12 (bookworm)",
    "kernel": "6.1.0",
    "architecture": "x86_64",
    "python": "3.11.7",
    "accelerators": [],
    "not_sampled": {"nvidia": "no NVIDIA driver"},
}


@dataclass(frozen=True)
class Shape:
    """Kind of run to invent."""

    name: str = "2026-11-21T12-00-00-digits"
    workers: int = 1
    ranks: int = 2
    duration: float = 180.0
    warmup: float = 20.0
    epoch_seconds: float = 0.9
    """Seconds of an epoch of the starting graph. A grown graph takes longer in proportion to its operations."""
    epochs: tuple[int, ...] = (4, 6, 8, 10)
    training_images: int = 1437
    validation_images: int = 360
    device: str = "AMD EPYC 9R14"
    collective: str = "horovod 0.28.1 (gloo)"
    precision: str = "fp32"
    dataset: str = "digits"
    start: str = "digits_small"
    simulated: bool = False
    ends: str | None = "duration"
    end: float | None = None
    """When it ended, if before the declared duration."""
    most_trials: int | None = None
    lose_worker_at: float | None = None
    resume_at: float | None = None
    seed: int = 7
    machine: dict[str, Any] = field(default_factory=lambda: dict(MACHINE))
    plateau: float = 0.975
    """Accuracy that trials approach."""


def started(shape: Shape, graph: Graph) -> RunStarted:
    """The first line."""
    config = as_plain(
        RunConf(
            dataset=DigitsConf(shape.dataset),
            schedule=ScheduleConf(shape.duration, shape.warmup, list(shape.epochs)),
            searcher=MorphismConf(),
            hpo=TpeConf(),
            seed=shape.seed,
        )
    )
    workers = WorkerShape(
        source="invented",
        device=shape.device,
        accelerators=0,
        ranks=shape.ranks,
        cores=1,
        memory_bytes=12_000_000_000,
    )
    default, largest = bounds(64, None, None, shape.training_images, shape.ranks)
    memory = int(0.9 * workers.memory_bytes)
    space = Space(graph, Budget.of(graph, factor=4.0, memory_bytes=memory, batch=32), default, None, largest, 4)
    config["space"] = recorded(space)
    return RunStarted(
        at=0.0,
        schema=SCHEMA,
        run=shape.name,
        started_unix=1_795_262_400.0,
        seed=shape.seed,
        config=config,
        config_hash=config_hash(config),
        start_graph=json.loads(encode(graph)),
        dataset={
            "name": shape.dataset,
            "training_images": shape.training_images,
            "validation_images": shape.validation_images,
            "classes": 10,
            "image": 8,
            "channels": 1,
            "is_full_imagenet": False,
        },
        shape=workers,
        duration_seconds=shape.duration,
        warmup_seconds=shape.warmup,
        versions=dict(VERSIONS),
        machine=shape.machine,
        simulated=shape.simulated,
        proposal_rules=RULES,
    )


@dataclass
class _Grown:
    number: int
    graph: Graph
    accuracy: float
    at: float


class _Invention:
    """Run in construction. The clock advances worker by worker, and all events are sorted at the end."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.random = random.Random(shape.seed)
        self.graph = start(shape.start)
        self.budget = Budget.of(self.graph)
        self.events: list[AnyEvent] = []
        self.grown: list[_Grown] = []
        self.number = 0
        self.base_flops = cost(self.graph).forward_flops
        self.end = shape.end or shape.duration

    def propose(self, at: float, worker: int, round_: int) -> tuple[int, Graph, float, int]:
        """Propose a child of one of the best, or the starting graph. Some proposals are rejected before."""
        number = self.number
        self.number += 1
        self.events.append(
            ProposalRequested(at=at, number=number, worker=worker, round=round_, seed=number, position=0)
        )
        parent, graph, morphs, inherited = None, self.graph, [], 0.0
        grown = [each for each in self.grown if each.at < at]
        if grown and self.random.random() < 0.9:
            best = max(self.random.sample(grown, min(3, len(grown))), key=lambda each: each.accuracy)
            morph = self.random.choice(legal(best.graph, self.budget))
            graph, _ = apply(best.graph, morph)
            parent, morphs, inherited = best.number, [encode_morph(morph)], best.accuracy
        if number % 11 == 10:
            self.events.append(TrialRejected(at=at, number=number, by="check", reason="over the budget"))
            return self.propose(at, worker, round_)
        counted = cost(graph)
        batch = 128 if round_ < 4 else self.random.choice([64, 96, 128])
        self.events.append(
            TrialProposed(
                at=at,
                number=number,
                position=0,
                seed=number,
                searcher="morphism",
                parent=parent,
                morphs=morphs,
                batch_size=batch,
                kernel_size=None if round_ < 4 else self.random.choice([3, 5]),
                pruned=[],
                fingerprint=graph.fingerprint,
                forward_flops=counted.forward_flops,
                backward_flops=counted.backward_flops,
                validation_flops=counted.forward_validation_flops,
                tensor_forward_flops=counted.tensor_forward_flops,
                tensor_backward_flops=counted.tensor_backward_flops,
                parameters=counted.parameters,
                seconds=self.random.uniform(0.004, 0.02),
            )
        )
        return number, graph, inherited, batch

    def join(self, worker: int, at: float) -> None:
        """A worker comes."""
        shape = self.shape
        self.events.append(
            WorkerJoined(
                at=at,
                worker=worker,
                host=f"node{worker:04d}" if shape.workers > 1 else "desk",
                ranks=shape.ranks,
                device=shape.device,
                device_memory_bytes=12_000_000_000,
                collective=shape.collective,
                machine=shape.machine,
            )
        )

    def work(self, workers: Iterable[int], at: float) -> None:
        """Workers from their joining to the end, always the one that is idle first."""
        idle = []
        for worker in workers:
            joined = at + self.random.uniform(0.0, 1.0)
            self.join(worker, joined)
            idle.append((joined, worker, 1))
        heapq.heapify(idle)
        while idle:
            at, worker, round_ = heapq.heappop(idle)
            if at < self.end and (self.shape.most_trials is None or round_ <= self.shape.most_trials):
                number, graph, inherited, batch = self.propose(at, worker, round_)
                at = self.attempt(worker, number, 1, round_, graph, inherited, batch, at + 0.03)
                heapq.heappush(idle, (at, worker, round_ + 1))

    def attempt(
        self, worker: int, number: int, attempt: int, round_: int, graph: Graph, inherited: float, batch: int, at: float
    ) -> float:
        """Invent one attempt and return the time of its end."""
        shape, chance = self.shape, self.random
        self.events.append(
            TrialStarted(at=at, trial=number, attempt=attempt, worker=worker, epoch=1, batch_size=batch, round=round_)
        )
        build = chance.uniform(0.02, 0.06) * max(1.0, shape.epoch_seconds)
        at += build
        if at >= self.end:
            return at  # the run ends while it is built
        self.events.append(
            TrialPrepared(
                at=at,
                trial=number,
                attempt=attempt,
                precision=shape.precision,
                ranks=shape.ranks,
                compiled=False,
                build_seconds=build * 0.7,
                weights_seconds=build * 0.3,
                compile_seconds=0.0,
            )
        )
        if number % 13 == 5:
            self.events.append(
                BatchReduced(at=at, trial=number, attempt=attempt, from_batch_size=batch, to_batch_size=batch * 3 // 4)
            )
        growth = cost(graph).forward_flops / self.base_flops
        ceiling = min(shape.plateau + chance.uniform(-0.02, 0.008) + 0.004 * math.log(growth), 0.998)
        best = 0.0
        epochs = shape.epochs[min(round_, len(shape.epochs)) - 1]
        for epoch in range(1, epochs + 1):
            length = shape.epoch_seconds * growth * chance.uniform(0.97, 1.04)
            stop = min(at + length, self.end)
            done = (stop - at) / length
            validation = 0.12 * length if stop < self.end else 0.0
            pieces = max(1, math.ceil((stop - at) / 5.0))
            for piece in range(pieces):
                begin, close = at + (stop - at) * piece / pieces, at + (stop - at) * (piece + 1) / pieces
                is_last = piece == pieces - 1
                interval = Interval(
                    worker=worker,
                    start=begin,
                    end=close,
                    training_images=int(shape.training_images * done / pieces),
                    validation_images=shape.validation_images if is_last and validation else 0,
                    busy_seconds=(close - begin) * chance.uniform(0.955, 0.985),
                    communication_seconds=(close - begin) * 0.04,
                    validation_seconds=min(close - begin, validation) * 0.95 if is_last else 0.0,
                    input_seconds=(close - begin) * 0.008,
                    checkpoint_seconds=(close - begin) * 0.002,
                )
                if not is_last or stop >= self.end:
                    fields = msgspec.structs.asdict(interval)
                    self.events.append(Progress(at=close, trial=number, attempt=attempt, epoch=epoch, **fields))
            at = stop
            if stop >= self.end:
                return at
            learnt = ceiling - (ceiling - max(0.1, 0.97 * inherited)) * epoch**-1.4
            accuracy = round(learnt * shape.validation_images) / shape.validation_images
            best = max(best, accuracy)
            self.events.append(
                EpochFinished(
                    at=at,
                    trial=number,
                    attempt=attempt,
                    epoch=epoch,
                    accuracy=accuracy,
                    validation_loss=0.05 + 2.0 * (1 - accuracy),
                    training_loss=0.5 + 2.0 * (1 - accuracy),
                    learning_rate=0.1 * (1 - epoch / 60),
                    checkpoint=True,
                    interval=interval,
                )
            )
        self.events.append(
            TrialFinished(
                at=at,
                trial=number,
                attempt=attempt,
                reason="epochs" if number % 4 else "early stop",
                accuracy=best,
                reported_accuracy=best,
            )
        )
        self.grown.append(_Grown(number, graph, best, at))
        return at


def invented(shape: Shape) -> list[AnyEvent]:
    """The events of a run of that shape."""
    run = _Invention(shape)
    first = started(shape, run.graph)
    run.work(range(shape.workers), 3.0)
    events = sorted(run.events, key=lambda event: event.at)
    if shape.lose_worker_at is not None:
        events = _with_a_loss(events, shape.lose_worker_at, worker=shape.workers - 1)
    if shape.resume_at is not None:
        events = _with_a_resume(events, shape.resume_at, shape)
    events = [first, *events]
    if shape.ends is not None:
        last = run.end if shape.most_trials is None else events[-1].at
        events.append(RunEnded(at=max(last, events[-1].at), reason=shape.ends))
    return positioned(events)


def _with_a_loss(events: list[AnyEvent], at: float, worker: int) -> list[AnyEvent]:
    """Return the events with a worker that is lost with its trial and sends no later message.

    Its proposals remain, because trials of other workers descend from them.
    """
    of_worker = {event.trial for event in events if isinstance(event, TrialStarted) and event.worker == worker}
    kept = [
        event
        for event in events
        if event.at < at
        or not (
            (isinstance(event, Progress | TrialStarted) and event.worker == worker)
            or getattr(event, "trial", None) in of_worker
        )
    ]
    position = next((i for i, event in enumerate(kept) if event.at >= at), len(kept))
    losses = [WorkerLost(at=at, worker=worker, reason="its node no longer answers")]
    return [*kept[:position], *losses, *kept[position:]]


def _with_a_resume(events: list[AnyEvent], at: float, shape: Shape) -> list[AnyEvent]:
    """Kill the run at `at` and resume it a tenth of its length later, with new workers."""
    before = [event for event in events if event.at < at]
    down = shape.duration / 10
    again = before[-1].at + down
    resumed = RunResumed(
        schema=SCHEMA,
        at=again,
        down_seconds=down,
        clock_stepped_back_seconds=0.0,
        versions={**VERSIONS, "ray": "2.61.0"},
        machine=shape.machine,
    )
    later = _Invention(shape)
    later.number = 1 + max(event.number for event in before if isinstance(event, ProposalRequested))
    later.grown = []
    later.work(range(shape.workers, 2 * shape.workers), again + 4.0)
    return [*before, resumed, *sorted(later.events, key=lambda event: event.at)]


def many_workers(
    workers: int = 4096, trials_each: int = 3, duration: float = 43_200.0, ranks: int = 8, intervals: int = 4
) -> list[AnyEvent]:
    """Return a simulated run of thousands of workers: about workers · trials_each · (intervals + 5) events."""
    chance = random.Random(3)
    graph = start("digits_small")
    counted = cost(graph)
    morph = encode_morph(legal(graph, Budget.of(graph))[0])
    shape = Shape(
        name="2026-11-21T12-00-00-rehearsal",
        duration=duration,
        warmup=duration / 12,
        simulated=True,
        dataset="synthetic",
        training_images=1_281_167,
        validation_images=50_000,
    )
    rest: list[AnyEvent] = []
    number = 0
    for worker in range(workers):
        at = 60.0 + chance.uniform(0, 120)
        rest.append(
            WorkerJoined(
                at=at,
                worker=worker,
                host=f"node{worker:04d}",
                ranks=ranks,
                device="NVIDIA A100-SXM4-80GB",
                device_memory_bytes=85_000_000_000,
                collective="simulated",
                machine={**MACHINE, "host": f"node{worker:04d}"},
            )
        )
        lost_at = chance.uniform(0.2, 0.9) * duration if worker % 97 == 5 else math.inf
        length = (duration - 200.0) / trials_each
        for round_ in range(1, trials_each + 1):
            step = length / (intervals + 0.2)
            parent = None if round_ == 1 else number - 1
            rest.append(ProposalRequested(at=at, number=number, worker=worker, round=round_, seed=number, position=0))
            rest.append(
                TrialProposed(
                    at=at,
                    number=number,
                    position=0,
                    seed=number,
                    searcher="morphism",
                    parent=parent,
                    morphs=[] if round_ != 2 else [morph],
                    batch_size=448,
                    kernel_size=None,
                    pruned=[],
                    fingerprint=f"{number:064x}",
                    forward_flops=int(counted.forward_flops * 1e3 * chance.uniform(1, 4)),
                    backward_flops=int(counted.backward_flops * 1e3 * chance.uniform(1, 4)),
                    validation_flops=counted.forward_validation_flops * 1000,
                    tensor_forward_flops=counted.tensor_forward_flops * 1000,
                    tensor_backward_flops=counted.tensor_backward_flops * 1000,
                    parameters=int(25e6 * chance.uniform(1, 4)),
                    seconds=0.02,
                )
            )
            rest.append(TrialStarted(at=at, trial=number, attempt=1, worker=worker, epoch=1, batch_size=448, round=1))
            at += step * 0.15
            rest.append(
                TrialPrepared(
                    at=at,
                    trial=number,
                    attempt=1,
                    precision="bf16",
                    ranks=ranks,
                    compiled=True,
                    build_seconds=2.0,
                    weights_seconds=1.0,
                    compile_seconds=step * 0.1,
                )
            )
            best = 0.0
            ceiling = chance.uniform(0.66, 0.78)
            for epoch in range(1, intervals + 1):
                begin, at = at, at + step
                if at > lost_at or at > duration:
                    break
                accuracy = ceiling - (ceiling - 0.1) * epoch**-1.2
                best = max(best, accuracy)
                rest.append(
                    EpochFinished(
                        at=at,
                        trial=number,
                        attempt=1,
                        epoch=epoch,
                        accuracy=accuracy,
                        validation_loss=3.0 - 2 * accuracy,
                        training_loss=3.0 - 2 * accuracy,
                        learning_rate=0.1,
                        checkpoint=True,
                        interval=Interval(
                            worker=worker,
                            start=begin,
                            end=at,
                            training_images=1_281_167,
                            validation_images=50_000,
                            busy_seconds=step * 0.97,
                            communication_seconds=step * 0.05,
                            validation_seconds=step * 0.03,
                            input_seconds=step * 0.01,
                            checkpoint_seconds=0.0,
                        ),
                    )
                )
            else:
                rest.append(
                    TrialFinished(
                        at=at, trial=number, attempt=1, reason="epochs", accuracy=best, reported_accuracy=best
                    )
                )
                number += 1
                continue
            if lost_at <= at:
                rest.append(WorkerLost(at=lost_at, worker=worker, reason="node down"))
            number += 1
            break
    rest.sort(key=lambda event: event.at)
    return [started(shape, graph), *rest, RunEnded(at=duration, reason="duration")]
