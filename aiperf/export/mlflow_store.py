"""Export to an MLflow database by MLflow's client: an experiment with one run, and one nested run per trial."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aiperf.errors import BadConfiguration
from aiperf.export.figures import (
    ExportSeries,
    Value,
    parameters_of_run,
    parameters_of_trial,
    results_of_run,
    results_of_trial,
    series_of_run,
    series_of_trial,
)
from aiperf.export.record import RunRecord
from aiperf.report.changes import morphs
from aiperf.sanitize import sanitize

DATABASE = "mlflow.db"
ARTIFACTS = "artifacts"
_STATUS = {
    "finished": "FINISHED",
    "failed": "FAILED",
    "in training": "RUNNING",
    "cut off": "KILLED",
    "waiting": "SCHEDULED",
    "never started": "KILLED",
}
_BROKEN_OFF = {"interrupted": "KILLED", "no workers": "FAILED", "corrupt images": "FAILED"}
"""Status of runs that did not finish normally."""
LONGEST = 6000
"""Maximum number of characters of a parameter value in MLflow."""
_LONGEST_NAME = 200


def write(record: RunRecord, folder: Path, out: Path) -> Path:
    """Write the database and the artifacts below `folder`. Return the folder of the run's artifacts.

    Args:
        out: place of the folder after the export. MLflow stores the whole path of artifacts.

    Raises:
        BadConfiguration: MLflow is not installed.
    """
    store = _Store(record, folder, out)
    run, report = record.report.run, record.report
    parameters: dict[str, Value] = parameters_of_run(record)
    for name, value in _dotted(run.config, "config."):
        parameters[_free(name, parameters)] = value
    tags = {
        "mlflow.note.content": f"AIPerf run {record.title}; its end: {run.end_reason or 'not in the journal'}",
        "aiperf.simulated": str(run.is_simulated).lower(),
        "aiperf.valid": str(report.score.valid).lower(),
        "aiperf.config_hash": run.config_hash,
    }
    for number, each in enumerate(report.warnings, 1):
        tags[f"aiperf.warning.{number}"] = f"{each.text}. To do: {each.remedy}"
    status = "RUNNING" if run.end_reason is None else _BROKEN_OFF.get(run.end_reason, "FINISHED")
    parent = store.add(
        record.title, status, (0.0, run.end), parameters, tags, series_of_run(record), results_of_run(record)
    )
    for trial in record.trials:
        facts = trial.facts
        tags = {
            "mlflow.parentRunId": parent,
            "aiperf.simulated": str(run.is_simulated).lower(),
            "aiperf.state": trial.state,
            "aiperf.outcome": facts.outcome,
            "aiperf.morphs": morphs(facts.morphs),
        } | ({} if facts.reason is None else {"aiperf.reason": facts.reason})
        name, span, results = f"trial {facts.number}", record.span(trial), results_of_trial(trial)
        parameters = parameters_of_trial(trial)
        store.add(name, _STATUS[trial.state], span, parameters, tags, series_of_trial(trial), results, facts.epochs)

    artifacts = folder / ARTIFACTS / parent / "artifacts"
    (artifacts / "graph").mkdir(parents=True)
    for name, graph in record.graphs.items():
        (artifacts / "graph" / f"{name}.json").write_text(json.dumps(graph, indent=1))
    (artifacts / "config.json").write_text(json.dumps(run.config, indent=1, sort_keys=True))
    return artifacts


class _Store:
    """MLflow's client, and the run's experiment in a new database."""

    def __init__(self, record: RunRecord, folder: Path, out: Path) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # an export must not send data
        try:
            from mlflow import MlflowClient
            from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # noqa: F401  # needs SQLAlchemy
        except ImportError as error:
            raise BadConfiguration(
                f"an MLflow database needs MLflow's own library, which cannot be imported here ({error}). Install it: "
                "pip install aiperf-cluster[mlflow]"
            ) from error
        for library in ("mlflow", "alembic"):
            logging.getLogger(library).setLevel(logging.WARNING)  # both log each table that they create
        self._record = record
        self._client = MlflowClient(f"sqlite:///{folder.absolute() / DATABASE}")
        self._experiment = self._client.create_experiment(
            sanitize(record.title), artifact_location=(out.absolute() / ARTIFACTS).as_uri()
        )

    def add(
        self,
        name: str,
        status: str,
        span: tuple[float, float],
        parameters: Mapping[str, Value],
        tags: Mapping[str, str],
        series: list[ExportSeries],
        results: Mapping[str, Value],
        last_step: int = 0,
    ) -> str:
        """Log a run with all its figures. Return its id."""
        from mlflow.entities import Metric, Param, RunTag

        began, ended = map(self._record.milliseconds, span)
        run = self._client.create_run(self._experiment, began, run_name=sanitize(name)).info.run_id
        metrics = [
            Metric(each.name, point.value, self._record.milliseconds(point.at), point.step)
            for each in series
            for point in each.points
        ]
        metrics += [Metric(result, float(value), ended, last_step) for result, value in results.items()]
        self._client.log_batch(
            run,
            metrics,
            [Param(parameter, _shortened(sanitize(str(value)))) for parameter, value in parameters.items()],
            [RunTag(tag, sanitize(text)) for tag, text in tags.items()],
        )
        if status == "SCHEDULED":
            self._client.update_run(run, status)
        elif status != "RUNNING":
            self._client.set_terminated(run, status, ended)
        return str(run)


def _dotted(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Value]]:
    """Flatten a configuration to options of a command line: dotted names with exact values."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """Return a parameter's name in characters that MLflow accepts, with a number if the name is taken."""
    allowed = re.sub(r"[^A-Za-z0-9_.\-]", "_", name)[:_LONGEST_NAME]
    free, number = allowed, 1
    while free in taken:
        number += 1
        free = f"{allowed}_{number}"
    return free


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{len(text)} characters: see config.json among the artifacts"
