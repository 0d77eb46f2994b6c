"""Prediction of a score before the run: a profile of a real run, and simulations of the configuration with several seeds.

The prediction is stored as JSON with the simulated configuration, so that it can be repeated, equal to the last digit.
A prediction for a run that exists can be compared with it. The simulated search finds other networks than the real one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from aiperf.accounting.accelerator_time import accelerator_time, time_breakdown
from aiperf.accounting.score import capacity, score, window_work
from aiperf.accounting.valid_window import window
from aiperf.accounting.work_log import WorkLog, work_log
from aiperf.config import RunConf, as_plain, configure, from_plain
from aiperf.data.description import DataSet
from aiperf.data.survey import describe as describe_data
from aiperf.errors import BadConfiguration
from aiperf.files import shown
from aiperf.journal.events import NodeChecked, RunStarted, ScorePredicted
from aiperf.journal.journal import NAME, read
from aiperf.journal.run_folder import run_folder
from aiperf.simulate.drive import drive
from aiperf.simulate.session import Opening, open_run, world_of
from aiperf.statistics.predicted_score import (
    FORMAT,
    ScorePrediction,
    as_json,
    node_hashes,
    read_prediction,
    release,
)
from aiperf.units import flops_per_second, interval, share
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
    conf = _simulated(from_plain(first.config), SimulatedConf(workers=workers, profile=profile), runs)
    predicted = _simulated_figures(open_run(conf, data_of(first.dataset)))
    return PredictionComparison(run, profile, workers, predicted, measured)


def _simulated(conf: RunConf, cluster: SimulatedConf, runs: str) -> RunConf:
    """Return the configuration of a run on a simulated cluster."""
    return replace(
        conf, cluster=cluster, runs=runs, executor="ray", follow=None, resume=None, resume_until=None, predict=None
    )


def _simulated_figures(opening: Opening) -> RunFigures:
    with tempfile.TemporaryDirectory(prefix="prediction-") as folder:
        path = Path(folder) / NAME
        drive(world_of(opening), opening.first, path)
        return figures_of(work_log(read(path)))


def data_of(recorded: Mapping[str, Any]) -> DataSet:
    """Return a data set from its description in a journal or a prediction, so that no file of it is needed."""
    channels = int(recorded["channels"])
    return DataSet(**{name: recorded[name] for name in _DATA}, mean=(0.0,) * channels, std=(1.0,) * channels)


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


SEEDS = 16
"""Simulations of one prediction."""
_SCHEDULE = ("schedule.duration_seconds", "schedule.warmup_seconds", "name")
"""Options that a pilot run has of its own."""
_DATA = ("name", "training_images", "validation_images", "classes", "image", "channels")
_WARMUP_SHARE = 1 / 3


def predict(run: str, runs: str, words: Sequence[str] | None, workers: int | None) -> ScorePrediction:
    """Predict the score of a configuration from the profile of a real run.

    Args:
        run: run of the profile.
        runs: folder of runs.
        words: options of the predicted run. None: the configuration of `run`.
        workers: number of workers (default: as many as `run` has).

    Raises:
        BadConfiguration: the profile's run is simulated, or has no score.
    """
    reader = read(run_folder(run, runs))
    kept = work_log(reader)
    first = kept.started
    assert isinstance(first, RunStarted), "a journal begins with it"
    if first.simulated:
        raise BadConfiguration(
            f"a profile is taken from a real run; '{run}' is simulated: give --from a run that trained"
        )
    measured = max(1, capacity(kept) // kept.presences[0].ranks)
    asked = from_plain(first.config) if words is None else configure(words)
    dataset = data_of(first.dataset) if words is None else describe_data(asked.dataset)
    conf = _simulated(asked, SimulatedConf(workers=workers or measured, profile=run), runs)
    found = open_run(conf, dataset).conf
    return _predicted(
        replace(conf, cluster=replace(found, profile=None), runs="runs", name=None),
        {name: getattr(dataset, name) for name in _DATA},
        Path(run).name,
        reader.reading.chain.decode(),
        node_hashes(event for event in read(run_folder(run, runs)) if isinstance(event, NodeChecked)),
        is_extrapolated=found.workers != measured,
    )


def _predicted(
    conf: RunConf,
    dataset: dict[str, Any],
    source: str,
    source_hash: str,
    nodes: tuple[str, ...],
    *,
    is_extrapolated: bool,
) -> ScorePrediction:
    cluster = conf.cluster
    assert isinstance(cluster, SimulatedConf)
    seeds = range(conf.seed, conf.seed + SEEDS)
    figures = [_simulated_figures(open_run(replace(conf, seed=seed), data_of(dataset))) for seed in seeds]
    shares = {line: fmean(each.shares[line] for each in figures) for line in figures[0].shares}
    return ScorePrediction(
        FORMAT,
        release(),
        nodes,
        source,
        source_hash,
        cluster.workers,
        is_extrapolated,
        json.loads(json.dumps(as_plain(conf))),
        dataset,
        tuple(each.flops_per_second for each in figures),
        shares,
    )


def pilot(words: Sequence[str], seconds: float, runs: str) -> str:
    """Run these options for a short time, and return the folder of this run.

    Raises:
        BadConfiguration: the pilot run failed. Its own messages are printed.
    """
    own = [word for word in words if word.partition("=")[0] not in (*_SCHEDULE, "runs")]
    own += [
        f"schedule.duration_seconds={seconds:g}",
        f"schedule.warmup_seconds={seconds * _WARMUP_SHARE:g}",
        "name=pilot",
    ]
    before = set(Path(runs).glob("*-pilot*"))
    ended = subprocess.run([sys.executable, "-m", "aiperf", *own, f"runs={runs}"], stdout=sys.stderr)
    made = sorted(set(Path(runs).glob("*-pilot*")) - before)
    if ended.returncode or not made:
        raise BadConfiguration(
            f"a pilot run ends with a score; this one ended with status {ended.returncode}: correct what it printed, or use a "
            "longer --pilot"
        )
    return str(made[-1])


def again(path: Path) -> tuple[ScorePrediction, bool]:
    """Repeat a prediction. Return it, and whether it equals the stored one to the last digit.

    `path`: the file of a prediction, or the folder of a run that was predicted.

    Raises:
        BadConfiguration: the file holds no prediction.
        OSError: the file cannot be read.
    """
    stored = _stored(path)
    repeated = _predicted(
        from_plain(stored["config"]),
        stored["dataset"],
        stored["source"],
        stored["source_hash"],
        tuple(stored["nodes"]),
        is_extrapolated=stored["is_extrapolated"],
    )
    figures = ("scores", "shares", "score", "interval", "workers")
    fresh = as_json(repeated)
    return repeated, all(fresh[name] == stored.get(name) for name in figures)


def _stored(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        return read_prediction(path)
    found = (event.prediction for event in read(path / NAME) if isinstance(event, ScorePredicted))
    content = next(found, None)
    if content is None:
        raise BadConfiguration(
            f"--again takes a run that was started with predict=FILE, but {shown(path)} was not: name FILE"
        )
    return content


def lines(of: ScorePrediction) -> list[str]:
    """Return a prediction as text."""
    workers = "1 worker" if of.workers == 1 else f"{of.workers} workers"
    label = ", extrapolated from another number of workers" if of.is_extrapolated else ""
    return [
        f"predicted score {flops_per_second(of.score)}, 95 % interval {interval(*of.interval, 'FLOPS')}, {workers}{label}",
        f"from the profile of {of.source} (last hash {of.source_hash[:12]}…), {len(of.scores)} simulations",
        *(f"  {name:<16}{share(part):>8}" for name, part in of.shares.items()),
    ]
