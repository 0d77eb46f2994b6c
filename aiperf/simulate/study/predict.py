"""Prediction of a score before the run: a profile of a real run, and simulations of the configuration with several seeds.

The prediction is stored as JSON with the simulated configuration, so that it can be repeated, equal to the last digit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

from aiperf.accounting.score import capacity
from aiperf.accounting.work_log import work_log
from aiperf.config import RunConf, as_plain, configure, from_plain
from aiperf.data.description import DataSet
from aiperf.data.survey import describe as describe_data
from aiperf.errors import BadConfiguration
from aiperf.files import shown
from aiperf.journal.events import RunStarted
from aiperf.journal.journal import NAME, read
from aiperf.journal.run_folder import run_folder
from aiperf.simulate.driver_restarts import drive
from aiperf.simulate.session import open_run, world_of
from aiperf.simulate.study.against import data_of, figures_of
from aiperf.statistics.estimate import deviation, quantile
from aiperf.system.describe import versions
from aiperf.units import flops_per_second, interval, share
from cluster.simulated import SimulatedConf

SEEDS = 16
"""Simulations of one prediction."""
FORMAT = 1
"""Version of the JSON of a prediction."""
_SCHEDULE = ("schedule.duration_seconds", "schedule.warmup_seconds", "name")
"""Options that a pilot run has of its own."""
_DATA = ("name", "training_images", "validation_images", "classes", "image", "channels")
_WARMUP_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class ScorePrediction:
    """A predicted score with the input that reproduces it."""

    format: int
    release: str
    source: str
    """Run of the profile."""
    source_hash: str
    """Hash of the last line of its journal."""
    workers: int
    is_extrapolated: bool
    """True if the number of workers differs from that of the profile."""
    config: dict[str, Any]
    """Configuration with the simulated cluster, which holds the figures of the profile."""
    dataset: dict[str, Any]
    scores: tuple[float, ...]
    """FLOPS of each simulation. Seeds are the configuration's seed, and the numbers after it."""
    shares: dict[str, float]
    """Mean share of each line of the time breakdown."""

    @property
    def score(self) -> float:
        """Return the predicted score in FLOPS: the mean of the simulations."""
        return fmean(self.scores)

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of one run, from the spread of the simulations. It does not cover the machine's spread."""
        count = len(self.scores)
        half = quantile(count - 1) * deviation(self.scores) * sqrt(1 + 1 / count)
        return max(0.0, self.score - half), self.score + half


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
    dataset = data_of(first) if words is None else describe_data(asked.dataset)
    cluster = SimulatedConf(workers=workers or measured, profile=run)
    conf = replace(asked, cluster=cluster, runs=runs, executor="ray", follow=None, resume=None, resume_until=None)
    found = open_run(conf, dataset).conf
    return _predicted(
        replace(conf, cluster=replace(found, profile=None), runs="runs", name=None),
        {name: getattr(dataset, name) for name in _DATA},
        Path(run).name,
        reader.reading.chain.decode(),
        is_extrapolated=found.workers != measured,
    )


def _predicted(
    conf: RunConf, dataset: dict[str, Any], source: str, source_hash: str, *, is_extrapolated: bool
) -> ScorePrediction:
    channels = int(dataset["channels"])
    data = DataSet(**dataset, mean=(0.0,) * channels, std=(1.0,) * channels)
    cluster = conf.cluster
    assert isinstance(cluster, SimulatedConf)
    figures = []
    for seed in range(conf.seed, conf.seed + SEEDS):
        opening = open_run(replace(conf, seed=seed), data)
        with tempfile.TemporaryDirectory(prefix="prediction-") as folder:
            path = Path(folder) / NAME
            drive(world_of(opening), opening.first, path)
            figures.append(figures_of(work_log(read(path))))
    shares = {line: fmean(each.shares[line] for each in figures) for line in figures[0].shares}
    return ScorePrediction(
        FORMAT,
        versions().get("aiperf-cluster", "not installed as a package"),
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


def as_json(of: ScorePrediction) -> dict[str, Any]:
    """Return the content of a prediction's file."""
    return asdict(of) | {"score": of.score, "interval": list(of.interval)}


def again(path: Path) -> tuple[ScorePrediction, bool]:
    """Repeat the prediction in a file. Return it, and whether it equals the stored one to the last digit.

    Raises:
        BadConfiguration: the file holds no prediction.
        OSError: the file cannot be read.
    """
    stored = _read(path)
    repeated = _predicted(
        from_plain(stored["config"]),
        stored["dataset"],
        stored["source"],
        stored["source_hash"],
        is_extrapolated=stored["is_extrapolated"],
    )
    figures = ("scores", "shares", "score", "interval", "workers")
    fresh = json.loads(json.dumps(as_json(repeated)))
    return repeated, all(fresh[name] == stored.get(name) for name in figures)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise BadConfiguration(
            f"a prediction is a JSON file of `predict --out`; {shown(path)} is none ({error})"
        ) from error
    keys = ScorePrediction.__dataclass_fields__.keys()
    if not isinstance(content, dict) or not keys <= content.keys() or content["format"] != FORMAT:
        raise BadConfiguration(
            f"a prediction has format {FORMAT} and the fields {', '.join(keys)}; {shown(path)} differs: write it again with "
            "`predict --out`"
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
