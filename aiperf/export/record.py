"""Contents of an export: the report of a run and its evaluations, as parameters, results and curves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from aiperf.journal.events import EpochFinished, Progress, RunStarted
from aiperf.journal.journal import NAME, read_again
from aiperf.report.facts import Report, TrialFacts
from aiperf.report.figures import ERROR, by_name, values
from aiperf.report.write import report_of

Value = str | int | float
Curve = tuple[str, list[tuple[float, int, float]]]
"""Name, and (seconds since the start of the run, step, value) of each point."""

_CURVES = {
    "score": "flops_per_second",
    "average": "cumulative_flops_per_second",
    "instantaneous": "instantaneous_flops_per_second",
    "regulated": "regulated_flops_per_second",
}
"""Figures (aiperf/report/figures.py) with a curve, and the field of its points."""
_OF_EPOCH = ("accuracy", "validation_loss", "training_loss", "learning_rate")
_PARAMETERS = (
    "batch_size", "kernel_size", "searcher", "tuned_by", "parent", "generation", "round", "worker", "precision", "fingerprint",
    "parameters", "forward_flops", "backward_flops",
)  # fmt: skip
_RESULTS = ("reported_accuracy", "epochs", "attempts", "training_images", "seconds")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it is exported: its report, its first event, and the evaluations of its trials."""

    folder: Path
    report: Report
    started: RunStarted
    epochs: Mapping[int, Mapping[int, EpochFinished]]
    """End of each epoch by trial number and epoch. The last end of a repeated epoch counts."""

    @property
    def title(self) -> str:
        """Name of the run, followed by '(simulated)' for a simulated run."""
        return f"{self.report.run.name} (simulated)" if self.report.run.is_simulated else self.report.run.name

    def unix(self, at: float) -> float:
        """Return the time `at` (seconds since the start of the run) as seconds since 1970 (UTC), by the driver's clock."""
        return self.started.started_unix + at

    def span(self, trial: TrialFacts) -> tuple[float, float]:
        """Return start and end of a trial in seconds since the start of the run. A missing time is that of the last event."""
        end = self.report.run.end
        return end if trial.started is None else trial.started, end if trial.ended is None else trial.ended

    def graphs(self) -> dict[str, dict[str, Any]]:
        """Return the networks of the run as JSON objects by name: `start`, and `best` if a trial was evaluated."""
        best = self.report.architecture
        graphs = {"start": self.started.start_graph, "best": None if best is None else best.graph}
        return {name: graph for name, graph in graphs.items() if graph is not None}

    def parameters(self) -> dict[str, Value]:
        """Return the parameters that are fixed before the run, by name: seed, data set, length in seconds and others."""
        run = self.report.run
        named: dict[str, Value] = {
            "seed": run.seed,
            "config_hash": run.config_hash,
            "dataset": str(run.dataset.get("name", "")),
            "duration_seconds": run.duration_seconds,
            "warmup_seconds": run.warmup_seconds,
            "proposal_rules": run.proposal_rules,
            "simulated": str(run.is_simulated).lower(),
        }
        return named if run.follows is None else named | {"follows": run.follows.run}

    def results(self) -> dict[str, float]:
        """Return the defined figures by name, and for one release also by their former names, the fields of the score."""
        named = (*asdict(self.report.score).items(), *values(self.report).items())
        return {name: value for name, value in named if type(value) in (int, float)}

    def curves(self) -> Iterator[Curve]:
        """Yield the curves of score, error and mean load of the devices, as (name, [(seconds, step, value)])."""
        report = self.report
        for name, field in _CURVES.items():
            yield _curve(f"score/{by_name(name).name}", ((each.at, getattr(each, field)) for each in report.curve))
        yield _curve(f"{ERROR.name}/measured", ((each.at, each.error) for each in report.errors))
        yield _curve(f"{ERROR.name}/best", ((each.at, each.best) for each in report.errors))
        for series in () if report.telemetry is None else report.telemetry.courses:
            for name in ("utilisation", "memory"):
                parts = enumerate(getattr(series, name), 1)
                yield _curve(
                    f"devices/{series.kind}/{name}", ((part * series.part_seconds, value) for part, value in parts)
                )

    def trial_curves(self, trial: TrialFacts) -> Iterator[Curve]:
        """Yield accuracy, losses and learning rate as (name, [(seconds, epoch, value)]). Detectors' validation loss is None."""
        ends = sorted(self.epochs.get(trial.number, {}).items())
        for name in _OF_EPOCH:
            values = [(each.at, epoch, getattr(each, name)) for epoch, each in ends]
            yield name, [point for point in values if point[2] is not None]


def _curve(name: str, points: Iterable[tuple[float, float | None]]) -> Curve:
    return name, [(at, round(at), value) for at, value in points if value is not None]


def trial_parameters(trial: TrialFacts) -> dict[str, Value]:
    """Return the parameters of a trial by name, such as `batch_size` (the last one, after reductions). None is left out."""
    named = {name: getattr(trial, name) for name in _PARAMETERS}
    return {name: value for name, value in named.items() if value is not None}


def trial_results(trial: TrialFacts) -> dict[str, float]:
    """Return the results of a trial by name: accuracies (0..1), counts, and `seconds` of its reported work."""
    named = {"best_accuracy": trial.accuracy} | {name: getattr(trial, name) for name in _RESULTS}
    return {name: value for name, value in named.items() if value is not None}


def record_of(folder: Path) -> RunRecord:
    """Read the run in a folder with all data that an export needs. It may still be running."""
    report = report_of(folder)
    events = islice(read_again(folder / NAME, Progress), report.run.events)
    started = next(events)
    assert isinstance(started, RunStarted), "a journal begins with RunStarted"
    epochs: dict[int, dict[int, EpochFinished]] = {}
    for event in events:
        if isinstance(event, EpochFinished):
            epochs.setdefault(event.trial, {})[event.epoch] = event
    return RunRecord(folder, report, started, epochs)
