"""Export to an MLflow database by MLflow's client: an experiment with one run, and one nested run per trial."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # an export must not send data

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from aiperf.export.record import Curve, RunRecord, Value, trial_parameters, trial_results
from aiperf.journal.options import flat_options
from aiperf.report.facts import TrialFacts
from aiperf.report.trial_facts import morphs_text
from aiperf.report.write import write as write_report
from aiperf.sanitize import sanitize

DATABASE = "mlflow.db"
ARTIFACTS = "artifacts"
_STATUS = {
    "failed": "FAILED",
    "training": "RUNNING",
    "lost": "RUNNING",
    "waiting": "SCHEDULED",
    "cut off": "KILLED",
    "never started": "KILLED",
}
"""Status of trials by outcome. Others have finished."""
_BROKEN_OFF = {None: "RUNNING", "interrupted": "KILLED", "no workers": "FAILED", "corrupt images": "FAILED"}
"""Status of runs by the reason of their end. Others have finished."""
LONGEST = 6000
"""Maximum number of characters of a parameter value in MLflow. config.json among the artifacts has the whole value."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One MLflow run: the AIPerf run itself, or one of its trials."""

    name: str
    status: str
    span: tuple[float, float]
    """Start and end in seconds since the start of the run."""
    parameters: Mapping[str, Value]
    tags: Mapping[str, str]
    curves: Iterable[Curve]
    results: Mapping[str, float]
    last_step: int = 0
    """Step number under which the results are stored."""


def write(record: RunRecord, folder: Path, out: Path) -> None:
    report = log(record, folder, out) / "report"
    report.mkdir()
    write_report(record.report, report, record.folder)


def log(record: RunRecord, folder: Path, out: Path) -> Path:
    """Write MLflow's database and artifacts of a run below `folder`, which becomes `out`. Return the artifacts' folder."""
    for library in ("mlflow", "alembic"):
        logging.getLogger(library).setLevel(logging.WARNING)  # both log each table that they create
    client = MlflowClient(f"sqlite:///{folder.absolute() / DATABASE}")
    artifacts = (out.absolute() / ARTIFACTS).as_uri()
    experiment = client.create_experiment(sanitize(record.title), artifact_location=artifacts)
    parent = _log(client, experiment, record, _run(record))
    for trial in record.report.trials:
        _log(client, experiment, record, _trial(record, trial, parent))
    kept = folder / ARTIFACTS / parent / "artifacts"
    (kept / "graph").mkdir(parents=True)
    for name, graph in record.graphs().items():
        (kept / "graph" / f"{name}.json").write_text(json.dumps(graph, indent=1))
    (kept / "config.json").write_text(json.dumps(record.report.run.config, indent=1, sort_keys=True))
    return kept


def _run(record: RunRecord) -> LoggedRun:
    run, report = record.report.run, record.report
    config = {
        f"config.{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}": value for name, value in flat_options(run.config).items()
    }
    tags = {
        "mlflow.note.content": f"AIPerf run {record.title}; its end: {run.end_reason or 'not in the journal'}",
        "aiperf.simulated": str(run.is_simulated).lower(),
        "aiperf.valid": str(report.score.valid).lower(),
        "aiperf.config_hash": run.config_hash,
    }
    for number, each in enumerate(report.warnings, 1):
        tags[f"aiperf.warning.{number}"] = f"{each.text}. To do: {each.remedy}"
    return LoggedRun(
        name=record.title,
        status=_BROKEN_OFF.get(run.end_reason, "FINISHED"),
        span=(0.0, run.end),
        parameters=record.parameters() | config,
        tags=tags,
        curves=record.curves(),
        results=record.results(),
    )


def _trial(record: RunRecord, trial: TrialFacts, parent: str) -> LoggedRun:
    tags = {
        "mlflow.parentRunId": parent,
        "aiperf.simulated": str(record.report.run.is_simulated).lower(),
        "aiperf.outcome": trial.outcome,
        "aiperf.morphs": morphs_text(trial.morphs),
        "aiperf.reason": trial.reason or "",
    }
    return LoggedRun(
        name=f"trial {trial.number}",
        status=_STATUS.get(trial.outcome, "FINISHED"),
        span=record.span(trial),
        parameters=trial_parameters(trial),
        tags=tags,
        curves=record.trial_curves(trial),
        results=trial_results(trial),
        last_step=trial.epochs,
    )


def _log(client: MlflowClient, experiment: str, record: RunRecord, run: LoggedRun) -> str:
    def milliseconds(at: float) -> int:
        return round(1000 * record.unix(at))

    began, ended = map(milliseconds, run.span)
    id = str(client.create_run(experiment, began, run_name=sanitize(run.name)).info.run_id)
    metrics = [Metric(name, value, milliseconds(at), step) for name, points in run.curves for at, step, value in points]
    metrics += [Metric(name, float(value), ended, run.last_step) for name, value in run.results.items()]
    parameters = [Param(name, sanitize(str(value))[:LONGEST]) for name, value in run.parameters.items()]
    client.log_batch(id, metrics, parameters, [RunTag(name, sanitize(text)) for name, text in run.tags.items()])
    if run.status == "SCHEDULED":
        client.update_run(id, run.status)
    elif run.status != "RUNNING":
        client.set_terminated(id, run.status, ended)
    return id
