"""Export to an MLflow database by MLflow's client: an experiment with one run, and one nested run per trial."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

from aiperf.export.record import Curve, RunRecord, Value, trial_parameters, trial_results
from aiperf.ranking.breaches import options
from aiperf.report.changes import morphs
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


def write(record: RunRecord, folder: Path, out: Path) -> Path:
    """Write the database and the artifacts below `folder`. Return the folder of the run's artifacts.

    Args:
        out: place of the folder after the export. MLflow stores the whole path of artifacts.
    """
    for library in ("mlflow", "alembic"):
        logging.getLogger(library).setLevel(logging.WARNING)  # both log each table that they create
    client = MlflowClient(f"sqlite:///{folder.absolute() / DATABASE}")
    artifacts = (out.absolute() / ARTIFACTS).as_uri()
    experiment = client.create_experiment(sanitize(record.title), artifact_location=artifacts)
    run, report = record.report.run, record.report
    config = {f"config.{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}": value for name, value in options(run.config).items()}
    tags = {
        "mlflow.note.content": f"AIPerf run {record.title}; its end: {run.end_reason or 'not in the journal'}",
        "aiperf.simulated": str(run.is_simulated).lower(),
        "aiperf.valid": str(report.score.valid).lower(),
        "aiperf.config_hash": run.config_hash,
    }
    for number, each in enumerate(report.warnings, 1):
        tags[f"aiperf.warning.{number}"] = f"{each.text}. To do: {each.remedy}"

    def add(
        name: str,
        status: str,
        span: tuple[float, float],
        parameters: Mapping[str, Value],
        tags: Mapping[str, str],
        curves: Iterable[Curve],
        results: Mapping[str, float],
        last_step: int = 0,
    ) -> str:
        """Log a run with all its figures. Return its id."""
        began, ended = (round(1000 * record.unix(at)) for at in span)
        id = client.create_run(experiment, began, run_name=sanitize(name)).info.run_id
        metrics = [
            Metric(curve, value, round(1000 * record.unix(at)), step)
            for curve, points in curves
            for at, step, value in points
        ]
        metrics += [Metric(result, float(value), ended, last_step) for result, value in results.items()]
        params = [Param(parameter, sanitize(str(value))[:LONGEST]) for parameter, value in parameters.items()]
        client.log_batch(id, metrics, params, [RunTag(tag, sanitize(text)) for tag, text in tags.items()])
        if status == "SCHEDULED":
            client.update_run(id, status)
        elif status != "RUNNING":
            client.set_terminated(id, status, ended)
        return str(id)

    status = _BROKEN_OFF.get(run.end_reason, "FINISHED")
    parent = add(
        record.title, status, (0.0, run.end), record.parameters() | config, tags, record.curves(), record.results()
    )
    for trial in report.trials:
        tags = {
            "mlflow.parentRunId": parent,
            "aiperf.simulated": str(run.is_simulated).lower(),
            "aiperf.outcome": trial.outcome,
            "aiperf.morphs": morphs(trial.morphs),
            "aiperf.reason": trial.reason or "",
        }
        add(
            f"trial {trial.number}",
            _STATUS.get(trial.outcome, "FINISHED"),
            record.span(trial),
            trial_parameters(trial),
            tags,
            record.trial_curves(trial),
            trial_results(trial),
            trial.epochs,
        )
    kept = folder / ARTIFACTS / parent / "artifacts"
    (kept / "graph").mkdir(parents=True)
    for name, graph in record.graphs().items():
        (kept / "graph" / f"{name}.json").write_text(json.dumps(graph, indent=1))
    (kept / "config.json").write_text(json.dumps(run.config, indent=1, sort_keys=True))
    return kept
