"""Prediction of a run's score by simulations with the measured machine speeds of an earlier real run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import msgspec

from aiperf.accounting.accelerator_time import accelerator_time, time_breakdown
from aiperf.accounting.score import capacity, score
from aiperf.accounting.work_log import window, work_log
from aiperf.config import RunConf, as_plain, configure, from_plain
from aiperf.data.dataset_config import LARGEST
from aiperf.data.description import DataSet
from aiperf.data.survey import describe as describe_data
from aiperf.errors import BadConfiguration
from aiperf.files import shown
from aiperf.journal.events import NodeChecked, RunStarted, ScorePredicted
from aiperf.journal.journal import NAME, read
from aiperf.journal.run_folder import run_folder
from aiperf.page.section import Items, Part, rows
from aiperf.progress import steps
from aiperf.reader_processes import package_environment
from aiperf.simulate.session import Opening, drive, open_run, world_of
from aiperf.statistics.predicted_score import (
    FORMAT,
    ScorePrediction,
    as_json,
    node_kinds,
    read_prediction,
    release,
)
from aiperf.units import counted, flops_per_second, interval, noun, share
from cluster.simulated import SimulatedConf


def _simulated(conf: RunConf, cluster: SimulatedConf, runs: str) -> RunConf:
    return replace(
        conf, cluster=cluster, runs=runs, executor="ray", follow=None, resume=None, resume_until=None, predict=None
    )


def _simulated_figures(opening: Opening) -> tuple[float, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="prediction-") as folder:
        path = Path(folder) / NAME
        drive(world_of(opening), opening.first, path)
        kept = work_log(read(path))
    flops_per_second = score(kept).flops_per_second
    if not flops_per_second:
        raise BadConfiguration(
            "a prediction needs a score, but the simulated run has none: predict a run that lasts longer than its warm-up"
        )
    breakdown = time_breakdown(accelerator_time(kept, window(kept)))
    return flops_per_second, {line.name: line.share for line in breakdown.lines}


class _Images(msgspec.Struct):
    """Figures of a data set that a simulation needs."""

    name: str
    training_images: Annotated[int, msgspec.Meta(ge=1)]
    validation_images: Annotated[int, msgspec.Meta(ge=1)]
    classes: Annotated[int, msgspec.Meta(ge=2)]
    image: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
    channels: Annotated[int, msgspec.Meta(ge=1, le=65536)]


def data_of(recorded: Mapping[str, Any]) -> DataSet:
    try:
        images = msgspec.structs.asdict(msgspec.convert(recorded, _Images))
    except msgspec.ValidationError as error:
        raise BadConfiguration(
            f"a prediction is for a data set of images, but found other content ({error}): predict again"
        ) from error
    per_channel = images["channels"]
    return DataSet(**images, mean=(0.0,) * per_channel, std=(1.0,) * per_channel, noun=noun(recorded))


SEEDS = 16
"""Simulations of one prediction."""
_SCHEDULE = ("schedule.duration_seconds", "schedule.warmup_seconds", "name")
"""Options that a pilot run has of its own."""
_WARMUP_SHARE = 1 / 3


def predict(run: str, runs: str, options: Sequence[str] | None, workers: int | None) -> ScorePrediction:
    """Return the predicted score of a configuration: 16 simulations with the measured machine speeds of a real run."""
    reader = read(run_folder(run, runs))
    kept = work_log(reader)
    first = kept.started
    assert isinstance(first, RunStarted), "a journal begins with it"
    measured = max(1, capacity(kept) // kept.presences[0].ranks)
    asked = from_plain(first.config) if options is None else configure(options)
    dataset = data_of(first.dataset) if options is None else describe_data(asked.dataset)
    conf = _simulated(asked, SimulatedConf(workers=workers or measured, profile=run), runs)
    cluster = open_run(conf, dataset).conf
    return _predicted(
        replace(conf, cluster=replace(cluster, profile=None), runs="runs", name=None),
        {name: getattr(dataset, name) for name in _Images.__struct_fields__},
        Path(run).name,
        reader.reading.chain.decode(),
        node_kinds(event for event in read(run_folder(run, runs)) if isinstance(event, NodeChecked)),
        is_extrapolated=cluster.workers != measured,
    )


def _predicted(
    conf: RunConf,
    dataset: dict[str, Any],
    source: str,
    source_hash: str,
    nodes: tuple[str | dict[str, str], ...],
    *,
    is_extrapolated: bool,
) -> ScorePrediction:
    assert isinstance(conf.cluster, SimulatedConf)
    seeds = steps("simulations", range(conf.seed, conf.seed + SEEDS))
    figures = [_simulated_figures(open_run(replace(conf, seed=seed), data_of(dataset))) for seed in seeds]
    shares = {line: fmean(each[line] for _, each in figures) for line in figures[0][1]}
    return ScorePrediction(
        FORMAT,
        release(),
        nodes,
        source,
        source_hash,
        conf.cluster.workers,
        is_extrapolated,
        json.loads(json.dumps(as_plain(conf))),
        dataset,
        tuple(flops_per_second for flops_per_second, _ in figures),
        shares,
    )


def pilot(options: Sequence[str], seconds: float, runs: str) -> str:
    """Execute a short real run in a child process with these options, and return its folder."""
    own = [option for option in options if option.partition("=")[0] not in (*_SCHEDULE, "runs")]
    own += [
        f"schedule.duration_seconds={seconds:g}",
        f"schedule.warmup_seconds={seconds * _WARMUP_SHARE:g}",
        "name=pilot",
    ]
    before = set(Path(runs).glob("*-pilot*"))
    command = [sys.executable, "-m", "aiperf", *own, f"runs={runs}"]
    ended = subprocess.run(command, stdout=sys.stderr, env=package_environment())
    made = sorted(set(Path(runs).glob("*-pilot*")) - before)
    if ended.returncode or not made:
        raise BadConfiguration(
            f"a pilot run ends with a score; this one ended with status {ended.returncode}: correct what it printed, or use a "
            "longer --pilot"
        )
    return str(made[-1])


def again(path: Path) -> tuple[ScorePrediction, bool]:
    stored = _stored(path)
    conf = from_plain(stored["config"])
    if not isinstance(conf.cluster, SimulatedConf):
        raise BadConfiguration(f"a prediction is of a simulated cluster, but {shown(path)} has another: write it again")
    repeated = _predicted(
        conf,
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
    predictions = (event.prediction for event in read(path / NAME) if isinstance(event, ScorePredicted))
    content = next(predictions, None)
    if content is None:
        raise BadConfiguration(
            f"--again takes a run that was started with predict=FILE, but {shown(path)} was not: name FILE"
        )
    return content


def parts(of: ScorePrediction) -> tuple[Part, ...]:
    """Return a prediction as text and table: score with interval, source, and shares of the time."""
    workers = counted(of.workers, "worker")
    label = ", extrapolated from another number of workers" if of.is_extrapolated else ""
    between = interval(*of.interval, "FLOPS")
    texts = (
        f"predicted score {flops_per_second(of.score)}, 95 % interval {between}, {workers}{label}",
        f"from the profile of {of.source} (last hash {of.source_hash[:12]}…), {len(of.scores)} simulations",
    )
    cells = [(name, share(part)) for name, part in of.shares.items()]
    return Items(texts), rows("shares", "", ("", ">"), cells)
