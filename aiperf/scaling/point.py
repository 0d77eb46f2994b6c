"""Values of one run for its scaling: the time of the starting network's trial by line, from the journal."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from aiperf.errors import CannotCompare
from aiperf.journal import events
from aiperf.journal.journal import read

LINES = ("arithmetic", "communication", "input", "checkpoint", "unexplained", "evaluation")
"""Lines of a run's time. All but the evaluation are in the time per image."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run. Times are those of the starting network's last attempt without its first epoch."""

    run: str
    started_unix: float
    network: str
    """Fingerprint of the starting network."""
    data: str
    """Name and fingerprint of the data set, and its size."""
    precision: str
    threads: str
    """trainer.threads."""
    is_simulated: bool
    accelerators: int
    """Ranks of the worker."""
    hosts: int
    batch: int
    """Images per step of one accelerator."""
    images: int
    """Training images of all accelerators."""
    line_seconds: dict[str, Fraction]
    """Accelerator-seconds by line, exact."""
    quality: float

    @property
    def global_batch(self) -> int:
        return self.batch * self.accelerators

    def seconds_per_image(self, evaluation: Fraction) -> dict[str, Fraction]:
        """Return accelerator-seconds per training image by line. `evaluation`: share of the evaluation that counts."""
        shares = {line: evaluation if line == "evaluation" else Fraction(1) for line in LINES}
        return {line: shares[line] * self.line_seconds[line] / self.images for line in LINES}


def point_of(folder: Path) -> Point:
    """Return the point of a run's folder.

    Raises:
        CannotCompare: the run has not ended, or its starting network trained for fewer than two epochs.
        AiperfError: the journal cannot be read.
    """
    return point_of_events(read(folder), str(folder))


def point_of_events(run_events: Iterable[events.AnyEvent], name: str) -> Point:
    """Return the point of a journal's events. `name`: that of messages. Errors are those of `point_of`."""
    first: events.RunStarted | None = None
    workers: dict[int, events.WorkerJoined] = {}
    proposed: events.TrialProposed | None = None
    start: events.TrialStarted | None = None
    prepared: events.TrialPrepared | None = None
    batch, quality, has_ended = 0, 0.0, False
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
                quality = event.accuracy
                work += _after_first(event.interval, start, event.epoch)
            case events.RunEnded():
                has_ended = True
            case _:
                pass
    if not has_ended:
        raise CannotCompare(f"a point is a run that has ended, but {name!r} has not: resume it, or leave it out")
    images = sum(each.training_images for each in work)
    if first is None or proposed is None or start is None or prepared is None or not images:
        raise CannotCompare(
            f"the first epoch of the starting network is left out, but found no later one in {name!r}: run it for longer, "
            "with schedule.epochs of at least 2"
        )
    worker = workers[start.worker]
    dataset = first.dataset
    return Point(
        run=name,
        started_unix=first.started_unix,
        network=proposed.fingerprint,
        data=json.dumps({key: dataset.get(key) for key in ("name", "fingerprint", "training_images", "image")}),
        precision=prepared.precision,
        threads=str(first.config.get("trainer", {}).get("threads")),
        is_simulated=first.simulated,
        accelerators=prepared.ranks,
        hosts=max(1, len(worker.hosts)),
        batch=batch,
        images=images,
        line_seconds=_lines(work, prepared.ranks),
        quality=quality,
    )


def _after_first(work: events.Work | None, start: events.TrialStarted | None, epoch: int) -> list[events.Work]:
    return [] if work is None or start is None or epoch <= start.epoch else [work]


def _lines(work: list[events.Work], ranks: int) -> dict[str, Fraction]:
    """Return accelerator-seconds by line. Without evaluation they add up to the intervals' length less validation."""

    def total(name: str) -> Fraction:
        return ranks * sum((Fraction(getattr(each, name)) for each in work), Fraction(0))

    busy, communication, evaluation = (total(f"{name}_seconds") for name in ("busy", "communication", "validation"))
    stops = {"input": total("input_seconds"), "checkpoint": total("checkpoint_seconds")}
    return {
        "arithmetic": busy - communication - evaluation,
        "communication": communication,
        **stops,
        "unexplained": total("end") - total("start") - busy - sum(stops.values()),
        "evaluation": evaluation,
    }
