"""Comparison of a rehearsal with the real run that it predicts: `python -m aiperf rehearse --against RUN`.

The run's own configuration is simulated with the same number of workers, at the speeds of a profile: of the run itself or of
another. Accuracies are invented, so the simulated search finds other networks than the real one.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from aiperf.accounting.accelerator_time import accelerator_time, time_breakdown
from aiperf.accounting.score import capacity, score, window_work
from aiperf.accounting.valid_window import window
from aiperf.accounting.work_log import WorkLog, work_log
from aiperf.config import from_plain
from aiperf.data.description import DataSet
from aiperf.errors import BadConfiguration
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import NAME, read
from aiperf.journal.run_folder import run_folder
from aiperf.simulate.driver_restarts import drive
from aiperf.simulate.session import open_run, world_of
from aiperf.units import flops_per_second, share
from cluster.simulated import SimulatedConf


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of one run, in its valid window."""

    flops_per_second: float
    flops_per_busy_second: float
    """Operations per second of an accelerator in training and validation steps."""
    shares: dict[str, float]
    """Lines of the time breakdown, as shares of all accelerator time."""


@dataclass(frozen=True, slots=True)
class PredictionComparison:
    """A prediction and its measurement."""

    run: str
    profile: str
    workers: int
    predicted: RunFigures
    measured: RunFigures


def against(run: str, runs: str, words: list[str]) -> PredictionComparison:
    """Simulate a run's configuration and compare.

    Raises:
        BadConfiguration: the run is simulated, has no score, or an option is not `cluster.profile`.
    """
    profile = run
    for word in words:
        name, _, value = word.partition("=")
        if name != "cluster.profile":
            raise BadConfiguration(
                "rehearse --against takes the configuration of the run, and cluster.profile=RUN alone, but "
                f"found {word!r}: leave it out"
            )
        profile = value
    kept = work_log(read(run_folder(run, runs)))
    first = kept.started
    assert first is not None, "a journal begins with it"
    if first.simulated:
        raise BadConfiguration(f"--against takes a real run, but '{run}' is simulated: name a run that trained")
    measured = figures_of(kept)
    workers = max(1, capacity(kept) // kept.presences[0].ranks)
    cluster = SimulatedConf(workers=workers, profile=profile)
    asked = from_plain(first.config)
    conf = replace(
        asked, cluster=cluster, runs=runs, executor="ray", follow=None, resume=None, resume_until=None, predict=None
    )
    opening = open_run(conf, data_of(first))
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        path = Path(folder) / NAME
        drive(world_of(opening), opening.first, path)
        predicted = figures_of(work_log(read(path)))
    return PredictionComparison(run, profile, workers, predicted, measured)


def data_of(first: RunStarted) -> DataSet:
    """Return the run's data set from its first line, so that no file of it is needed."""
    channels = int(first.dataset["channels"])
    names = ("name", "training_images", "validation_images", "classes", "image")
    return DataSet(
        **{name: first.dataset[name] for name in names},
        channels=channels,
        mean=(0.0,) * channels,
        std=(1.0,) * channels,
    )


def figures_of(kept: WorkLog) -> RunFigures:
    """Return the figures of a run. Raises BadConfiguration if it has no score."""
    inside = window(kept)
    result = score(kept).flops_per_second
    if not result:
        raise BadConfiguration(
            "a prediction is compared with a score, but this run has none: take a run that lasted longer than its warm-up"
        )
    lines = {line.name: line for line in time_breakdown(accelerator_time(kept, inside)).lines}
    busy = sum(lines[name].seconds for name in ("training", "communication", "validation"))
    return RunFigures(result, window_work(kept, inside) / busy, {name: line.share for name, line in lines.items()})


def against_lines(result: PredictionComparison) -> list[str]:
    """Return the result as text. Differences of rates are relative. Those of lines are points of all accelerator time."""
    predicted, measured = result.predicted, result.measured
    workers = "1 worker" if result.workers == 1 else f"{result.workers} workers"
    rates = (
        ("score", predicted.flops_per_second, measured.flops_per_second),
        ("FLOPS while busy", predicted.flops_per_busy_second, measured.flops_per_busy_second),
    )
    rows = [("", "predicted", "measured", "difference")]
    rows += [
        (name, flops_per_second(first), flops_per_second(second), f"{100 * (first / second - 1):+.1f} %")
        for name, first, second in rates
    ]
    rows += [
        (name, share(part, 2), share(measured.shares[name], 2), f"{100 * (part - measured.shares[name]):+.2f} points")
        for name, part in predicted.shares.items()
    ]
    return [
        f"{result.run}, {workers}, simulated at the speeds of {result.profile}. "
        "Accuracies are invented, so the networks differ",
        *(f"{name:22}{first:>16}{second:>16}{third:>16}" for name, first, second, third in rows),
    ]
