"""Figures of one run for a study of scaling: the time of the starting network's training by part, from the journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

from aiperf.errors import CannotCompare
from aiperf.journal import events
from aiperf.journal.journal import read
from aiperf.journal.options import OF_ONE_RUN, without
from aiperf.report.fold import all_reduce_seconds, gradient_bytes
from aiperf.report.phrases import flattened
from aiperf.system.peaks import DataType, declared_peak, memory_bandwidth, worker_peak
from aiperf.units import noun

LINES = ("arithmetic", "exchange", "waiting", "input", "checkpoint", "unexplained", "evaluation")
"""Lines of a run's time. All but the evaluation are in the time per image."""
COMMUNICATION = "communication"
"""Exchange and waiting together, for runs without a measured bus bandwidth."""


@dataclass(frozen=True, slots=True)
class RankMachine:
    """Figures of one rank (one accelerator and its process), measured at its start or published. None if unknown."""

    device: str
    peak_flops: float | None
    """Peak in FLOPS of a matrix product in the run's precision."""
    memory_bytes_per_second: float | None
    """Memory bandwidth."""
    bus_bytes_per_second: float | None
    """Bus bandwidth of all ranks together."""
    is_peak_declared: bool = False
    """True if the user declared the peak (option system.peak)."""


@dataclass(frozen=True, slots=True)
class Point:
    """Figures of one run. Times are those of the last attempt to train the starting network, without its first epoch."""

    run: str
    started_unix: float
    network: str
    """Fingerprint of the starting network."""
    data: str
    """Name and fingerprint of the data set, and its size."""
    precision: str
    threads: str
    """Compute threads of a rank without an accelerator."""
    is_simulated: bool
    accelerators: int
    """Number of ranks of the worker."""
    hosts: int
    batch: int
    """Images per step of one accelerator."""
    images: int
    """Number of processed training images, of all accelerators."""
    line_seconds: dict[str, Fraction]
    """Accelerator-seconds by part of the time (LINES), exact, on the clock of rank 0. A slow rank 0 does not wait."""
    machine: RankMachine
    proposal: events.TrialProposed
    start_graph: dict[str, Any]
    options: dict[str, str]
    """Value of each option by dotted name, without options that only identify a run."""
    epochs: tuple[events.EpochFinished, ...]
    training_images: int
    """Number of images in the training set."""
    samples: str
    """Noun of the training set's samples."""
    target: float | None
    """Target quality of the benchmark. None for the AutoML benchmark."""
    watts: float | None = None
    """Mean power in watts, from the widest measurement of the run's time. None if not measured."""
    warnings: tuple[str, ...] = ()
    """Warnings from the telemetry of this time, such as other programs that ran beside the run."""

    @property
    def global_batch(self) -> int:
        """Images per training step of all accelerators together."""
        return self.batch * self.accelerators

    @property
    def quality(self) -> float:
        """Quality after the last epoch, 0..1: accuracy, or mean average precision of a detector."""
        return self.epochs[-1].accuracy

    @property
    def steps_to_target(self) -> int | None:
        """Number of training steps to the end of the first epoch that reached the target quality. None if none did."""
        reached = (each.epoch for each in self.epochs if self.target is not None and each.accuracy >= self.target)
        epoch = next(reached, None)
        return None if epoch is None else epoch * max(1, self.training_images // self.global_batch)

    def seconds_per_image(self, evaluation: Fraction) -> dict[str, Fraction]:
        """Return accelerator-seconds per training image for each part of the time (arithmetic, exchange, waiting, input, …)."""
        shares = {"evaluation": evaluation}
        return {
            line: shares.get(line, Fraction(1)) * seconds / self.images for line, seconds in self.line_seconds.items()
        }

    def images_per_second(self, evaluation: Fraction) -> float:
        return float(self.accelerators / sum(self.seconds_per_image(evaluation).values()))

    def mfu(self, evaluation: Fraction) -> float | None:
        """Operations of convolutions and matrix products ÷ (time · peak), 0..1. None if the peak is unknown."""
        peak, own = self.machine.peak_flops, self.proposal
        rate = self.images_per_second(evaluation) / self.accelerators
        return None if peak is None else (own.tensor_forward_flops + own.tensor_backward_flops) * rate / peak

    def images_per_joule(self, evaluation: Fraction) -> float | None:
        """Return the training images per joule. None if the power was not measured."""
        return self.images_per_second(evaluation) / self.watts if self.watts else None


def point_of(folder: Path) -> Point:
    """Return the figures of the run in `folder` for a study of scaling."""
    return point_of_events(read(folder), str(folder), folder)


def point_of_events(run_events: Iterable[events.AnyEvent], name: str, folder: Path | None = None) -> Point:
    """Figures of a run for a study of scaling. `folder`: run's folder with its power, None for no power."""
    first: events.RunStarted | None = None
    workers: dict[int, events.WorkerJoined] = {}
    proposed: events.TrialProposed | None = None
    start: events.TrialStarted | None = None
    prepared: events.TrialPrepared | None = None
    batch, has_ended = 0, False
    epochs: dict[int, events.EpochFinished] = {}
    work: list[events.Work] = []
    for event in run_events:
        match event:
            case events.RunStarted():
                first = event
            case events.WorkerJoined():
                workers[event.worker] = event
            case events.TrialProposed(number=0):
                proposed = event
            case events.TrialStarted(trial=0):
                start, batch, work = event, event.batch_size, []
            case events.TrialPrepared(trial=0):
                prepared = event
            case events.BatchReduced(trial=0):
                batch, work = event.to_batch_size, []
            case events.Progress(trial=0):
                work += _after_first(event, start, event.epoch)
            case events.EpochFinished(trial=0):
                epochs[event.epoch] = event
                work += _after_first(event.interval, start, event.epoch)
            case events.RunEnded():
                has_ended = True
            case _:
                pass
    if not has_ended:
        raise CannotCompare(f"a point is a run that has ended, but {name!r} has not: resume it, or leave it out")
    images = sum(each.training_images for each in work)
    if first is None or proposed is None or start is None or prepared is None or not images or not epochs:
        raise CannotCompare(
            f"the first epoch of the starting network is left out, but found no later one in {name!r}: run it for longer, "
            "with schedule.epochs of at least 2"
        )
    worker = workers[start.worker]
    machine = _machine(worker, prepared.precision, first.config)
    dataset = first.dataset
    least_exchange = None
    if prepared.ranks == 1:
        least_exchange = 0.0
    elif machine.bus_bytes_per_second is not None:
        size = gradient_bytes(proposed.parameters, first.config)
        steps = images / (batch * prepared.ranks)
        least_exchange = steps * all_reduce_seconds(size, prepared.ranks, machine.bus_bytes_per_second)
    point = Point(
        run=name,
        started_unix=first.started_unix,
        network=proposed.fingerprint,
        data=json.dumps({key: dataset.get(key) for key in ("name", "fingerprint", "training_images", "image")}),
        precision=prepared.precision,
        threads=_threads(first.config, worker),
        is_simulated=first.simulated,
        accelerators=prepared.ranks,
        hosts=max(1, len(worker.hosts)),
        batch=batch,
        images=images,
        line_seconds=_lines(work, prepared.ranks, least_exchange),
        machine=machine,
        proposal=proposed,
        start_graph=first.start_graph,
        options=dict(flattened(without(first.config, OF_ONE_RUN | {"system"}))),
        epochs=tuple(event for _, event in sorted(epochs.items())),
        training_images=int(dataset["training_images"]),
        samples=noun(dataset).many,
        target=(first.config.get("benchmark") or {}).get("target_quality"),
    )
    return point if folder is None else _with_telemetry(point, folder, first, worker, work)


def _after_first(work: events.Work | None, start: events.TrialStarted | None, epoch: int) -> list[events.Work]:
    return [] if work is None or start is None or epoch <= start.epoch else [work]


def _machine(worker: events.WorkerJoined, precision: str, config: Mapping[str, Any]) -> RankMachine:
    measured, declared = worker.machine, declared_peak(config)
    of_precision = next((each for each in get_args(DataType) if each == precision), None)
    peak = None if of_precision is None else worker_peak(worker.device, measured, of_precision, declared)
    return RankMachine(
        worker.device,
        None if peak is None else peak.flops,
        memory_bandwidth(worker.device, None) or measured.get("measured_memory_bytes_per_second"),
        measured.get("measured_bus_bytes_per_second"),
        is_peak_declared=peak is not None and peak.is_declared,
    )


def _threads(config: Mapping[str, Any], worker: events.WorkerJoined) -> str:
    """Return the compute threads of a rank. By default the ranks of a host without accelerators share its processors."""
    given = config.get("trainer", {}).get("threads")
    processors = worker.machine.get("usable_processors")
    if given is None and processors is not None and not worker.machine.get("accelerators"):
        return str(max(1, processors * max(1, len(worker.hosts)) // worker.ranks))
    return str(given)


def _lines(work: list[events.Work], ranks: int, least_exchange: float | None) -> dict[str, Fraction]:
    """Return accelerator-seconds by line. Without evaluation they add up to the intervals' length less validation."""

    def total(name: str) -> Fraction:
        return ranks * sum((Fraction(getattr(each, name)) for each in work), Fraction(0))

    busy, communication, evaluation = (total(f"{name}_seconds") for name in ("busy", "communication", "validation"))
    stops = {name.removesuffix("_seconds"): total(name) for name in events.CLOCKS_OF_LENGTH if name != "busy_seconds"}
    split = {COMMUNICATION: communication}
    if least_exchange is not None:
        exchange = min(communication, ranks * Fraction(least_exchange))
        split = {"exchange": exchange, "waiting": communication - exchange}
    return {
        "arithmetic": busy - communication - evaluation,
        **split,
        **stops,
        "unexplained": total("end") - total("start") - busy - sum(stops.values()),
        "evaluation": evaluation,
    }


def _with_telemetry(
    point: Point, folder: Path, first: events.RunStarted, worker: events.WorkerJoined, work: list[events.Work]
) -> Point:
    from aiperf.system import log
    from aiperf.system.energy import energy_facts
    from aiperf.system.meters import read_meters
    from aiperf.system.summary import summarise
    from aiperf.system.warnings import telemetry_warnings

    window = (work[0].start, work[-1].end)
    telemetry, warnings = None, tuple[str, ...]()
    if (folder / "telemetry").is_dir():
        telemetry = summarise(log.read(folder / "telemetry"), window)
        all_warnings = telemetry_warnings(telemetry)
        warnings = tuple(each.text for each in all_warnings if each.severity != "note")
    meters = read_meters(folder, first.started_unix, window)
    seconds = window[1] - window[0]
    nodes = worker.hosts or (worker.host,)
    energy = energy_facts(telemetry, meters, nodes, None, {worker.worker: seconds}, seconds)
    return replace(point, watts=None if energy is None else energy.best.watts, warnings=warnings)
