"""Parameters, results and time series of a run and of its trials, under the same names for every tool."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from aiperf.export.record import RunRecord, TrialDetails

Value = str | int | float


@dataclass(frozen=True, slots=True)
class ExportPoint:
    """One value at one time."""

    at: float
    """Seconds since the start of the run."""
    step: int
    """Epoch in a time series of a trial. Whole seconds since the start in a time series of the run."""
    value: float


@dataclass(frozen=True, slots=True)
class ExportSeries:
    """One value over time."""

    name: str
    points: tuple[ExportPoint, ...]


_OF_SCORE = (
    "flops_per_second",
    "cumulative_flops_per_second",
    "instantaneous_flops_per_second",
    "regulated_flops_per_second",
)
_OF_TRIAL = ("accuracy", "validation_loss", "training_loss", "learning_rate")


def series_of_run(record: RunRecord) -> list[ExportSeries]:
    """Return the curves of score and error as in the report, and the devices' means. Missing values have no point."""
    report = record.report
    series = [_series(f"score/{name}", ((each.at, getattr(each, name)) for each in report.curve)) for name in _OF_SCORE]
    series.append(_series("validation_error/measured", ((each.at, each.error) for each in report.errors)))
    series.append(_series("validation_error/best", ((each.at, each.best) for each in report.errors)))
    for course in () if report.telemetry is None else report.telemetry.courses:
        for name in ("utilisation", "memory"):
            parts = enumerate(getattr(course, name), 1)
            series.append(
                _series(f"devices/{course.kind}/{name}", ((part * course.part_seconds, value) for part, value in parts))
            )
    return [each for each in series if each.points]


def _series(name: str, points: Iterable[tuple[float, float | None]]) -> ExportSeries:
    return ExportSeries(name, tuple(ExportPoint(at, round(at), value) for at, value in points if value is not None))


def series_of_trial(trial: TrialDetails) -> list[ExportSeries]:
    """Return one time series for each value of an evaluation. Empty for a trial without evaluations."""
    series = [
        ExportSeries(
            name,
            tuple(
                ExportPoint(each.at, each.epoch, float(value))
                for each in trial.last_evaluations
                if (value := getattr(each, name)) is not None
            ),
        )
        for name in _OF_TRIAL
    ]
    return [each for each in series if each.points]


def parameters_of_run(record: RunRecord) -> dict[str, Value]:
    """Return the parameters that were decided before the run. The complete configuration is exported separately."""
    run = record.report.run
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


def results_of_run(record: RunRecord) -> dict[str, Value]:
    """Return the numbers of `python -m aiperf score`. Undefined values are left out."""
    score = record.report.score
    named = {field.name: getattr(score, field.name) for field in fields(score)}
    return {
        name: value for name, value in named.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }


def parameters_of_trial(trial: TrialDetails) -> dict[str, Value]:
    """Return the parameters that were decided before training. Missing values are left out."""
    facts, proposal = trial.facts, trial.proposal
    named = {
        "batch_size": facts.batch_size,
        "kernel_size": trial.own_kernel,
        "searcher": facts.searcher,
        "tuned_by": proposal.tuned_by or None,
        "parent": facts.parent,
        "generation": facts.generation,
        "round": facts.round,
        "worker": facts.worker,
        "precision": facts.precision,
        "fingerprint": facts.fingerprint,
        "parameters": facts.parameters,
        "forward_flops": facts.forward_flops,
        "backward_flops": facts.backward_flops,
    }
    return {name: value for name, value in named.items() if value is not None}


def results_of_trial(trial: TrialDetails) -> dict[str, Value]:
    """Return the results of a trial. Missing values are left out."""
    facts = trial.facts
    named = {
        "best_accuracy": facts.accuracy,
        "reported_accuracy": facts.reported_accuracy,
        "epochs": facts.epochs,
        "attempts": facts.attempts,
        "training_images": facts.training_images,
        "seconds": facts.seconds,
    }
    return {name: value for name, value in named.items() if value is not None}


PARAMETERS_OF_TRIAL = {
    "batch_size": "number",
    "kernel_size": "number",
    "searcher": "text",
    "tuned_by": "text",
    "parent": "number",
    "generation": "number",
    "round": "number",
    "worker": "number",
    "precision": "text",
    "fingerprint": "text",
    "parameters": "number",
    "forward_flops": "number",
    "backward_flops": "number",
}
"""All names that `parameters_of_trial` can return, with their type."""
RESULTS_OF_TRIAL = ("best_accuracy", "reported_accuracy", "epochs", "attempts", "training_images", "seconds")
"""All names that `results_of_trial` can return."""
