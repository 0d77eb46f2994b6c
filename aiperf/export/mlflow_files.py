"""A run as MLflow's file store (mlruns/): an experiment with one run for the whole, and below it one nested run a trial.

The files are written here, without MLflow: its file store changes no more (MLflow 3 keeps it in maintenance), its own client
gives every run a random name and opens several files for a figure, and who has MLflow on another machine needs none here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from aiperf.export.figures import (
    Course,
    Value,
    courses_of_run,
    courses_of_trial,
    parameters_of_run,
    parameters_of_trial,
    results_of_run,
    results_of_trial,
)
from aiperf.export.files import File
from aiperf.export.record import RunRecord, Trial
from aiperf.plain import plain
from aiperf.report.changes import morphs

STORE = "mlruns"
_RUNNING, _SCHEDULED, _FINISHED, _FAILED, _KILLED = 1, 2, 3, 4, 5
"""MLflow's RunStatus."""
_STATUS = {
    "finished": _FINISHED,
    "failed": _FAILED,
    "in training": _RUNNING,
    "cut off": _KILLED,
    "waiting": _SCHEDULED,
    "never started": _KILLED,
}
_BROKEN_OFF = {"interrupted": _KILLED, "no workers": _FAILED, "corrupt images": _FAILED}
"""Ends of a run that are no finish."""
_PARTS = ("artifacts", "metrics", "params", "tags")
"""Folders of a run; MLflow takes a run that lacks one, empty though it be, for none."""
LONGEST = 6000
"""Characters that MLflow takes of a parameter's value."""
_LONGEST_NAME = 200


def experiment_of(record: RunRecord) -> str:
    """The experiment's id: digits, as MLflow gives them."""
    return str(int(record.identity("experiment")[:14], 16))


def artifacts_of(record: RunRecord) -> str:
    """Where the run's artifacts lie, below the export's folder."""
    return f"{STORE}/{experiment_of(record)}/{_run_id(record)}/artifacts"


def files(record: RunRecord, out: Path) -> Iterator[File]:
    """All of the store; `out`: where the export will lie, since MLflow keeps the whole path of artifacts."""
    experiment = experiment_of(record)
    store = out.absolute() / STORE
    began, ended = record.milliseconds(0.0), record.milliseconds(record.report.run.end)
    yield (
        f"{STORE}/{experiment}/meta.yaml",
        _yaml(
            {
                "artifact_location": (store / experiment).as_uri(),
                "creation_time": began,
                "experiment_id": experiment,
                "last_update_time": ended,
                "lifecycle_stage": "active",
                "name": plain(record.title),
            }
        ),
    )
    yield from _of_run(record, store)
    for trial in record.trials:
        yield from _of_trial(record, store, trial)


def _of_run(record: RunRecord, store: Path) -> Iterator[File]:
    run = record.report.run
    status = _RUNNING if run.end_reason is None else _BROKEN_OFF.get(run.end_reason, _FINISHED)
    parameters: dict[str, Value] = parameters_of_run(record)
    for name, value in _dotted(run.config, "config."):
        parameters[_free(name, parameters)] = value
    tags = {
        "mlflow.note.content": f"AIPerf run {record.title}; its end: {run.end_reason or 'not in the journal'}",
        "aiperf.simulated": str(run.is_simulated).lower(),
        "aiperf.valid": str(record.report.score.valid).lower(),
        "aiperf.config_hash": run.config_hash,
    }
    tags |= {
        f"aiperf.warning.{number}": f"{each.text}. To do: {each.remedy}"
        for number, each in enumerate(record.report.warnings, 1)
    }
    yield from _run(record, store, _run_id(record), record.title, status, (0.0, run.end), parameters, tags)
    folder = f"{STORE}/{experiment_of(record)}/{_run_id(record)}"
    yield from _metrics(record, folder, courses_of_run(record), results_of_run(record), run.end, 0)
    for name, graph in record.graphs.items():
        yield f"{folder}/artifacts/graph/{name}.json", [json.dumps(graph, indent=1).encode()]
    yield f"{folder}/artifacts/config.json", [json.dumps(run.config, indent=1, sort_keys=True).encode()]


def _of_trial(record: RunRecord, store: Path, trial: Trial) -> Iterator[File]:
    facts = trial.facts
    began, ended = record.span(trial)
    tags = {
        "mlflow.parentRunId": _run_id(record),
        "aiperf.simulated": str(record.report.run.is_simulated).lower(),
        "aiperf.state": trial.state,
        "aiperf.outcome": facts.outcome,
        "aiperf.morphs": morphs(facts.morphs),
    }
    if facts.reason is not None:
        tags["aiperf.reason"] = facts.reason
    name = f"trial {facts.number}"
    own = _run_id(record, facts.number)
    yield from _run(record, store, own, name, _STATUS[trial.state], (began, ended), parameters_of_trial(trial), tags)
    folder = f"{STORE}/{experiment_of(record)}/{own}"
    yield from _metrics(record, folder, courses_of_trial(trial), results_of_trial(trial), ended, facts.epochs)


def _run(
    record: RunRecord,
    store: Path,
    own: str,
    name: str,
    status: int,
    span: tuple[float, float],
    parameters: Mapping[str, Value],
    tags: Mapping[str, str],
) -> Iterator[File]:
    experiment = experiment_of(record)
    folder = f"{STORE}/{experiment}/{own}"
    is_over = status not in (_RUNNING, _SCHEDULED)
    yield (
        f"{folder}/meta.yaml",
        _yaml(
            {
                "artifact_uri": (store / experiment / own / "artifacts").as_uri(),
                "end_time": record.milliseconds(span[1]) if is_over else None,
                "entry_point_name": "",
                "experiment_id": experiment,
                "lifecycle_stage": "active",
                "run_id": own,
                "run_name": plain(name),
                "run_uuid": own,
                "source_name": "",
                "source_type": 4,
                "source_version": "",
                "start_time": record.milliseconds(span[0]),
                "status": status,
                "tags": [],
                "user_id": "aiperf",
            }
        ),
    )
    for part in _PARTS:
        yield f"{folder}/{part}/", ()
    told = {
        "mlflow.runName": name,
        "mlflow.user": "aiperf",
        "mlflow.source.name": "aiperf",
        "mlflow.source.type": "LOCAL",
        **tags,
    }
    for tag, text in told.items():
        yield f"{folder}/tags/{tag}", [plain(text).encode()]
    for parameter, value in parameters.items():
        # MLflow takes a parameter of two lines for one that was set twice
        text = plain(str(value))
        if len(text) > LONGEST:
            text = f"{len(text)} characters: see config.json among the artifacts"
        yield f"{folder}/params/{parameter}", [text.encode()]


def _metrics(
    record: RunRecord, folder: str, courses: list[Course], results: Mapping[str, Value], at: float, step: int
) -> Iterator[File]:
    for course in courses:
        yield (
            f"{folder}/metrics/{course.name}",
            [f"{record.milliseconds(each.at)} {each.value!r} {each.step}\n".encode() for each in course.points],
        )
    for name, value in results.items():
        yield f"{folder}/metrics/{name}", [f"{record.milliseconds(at)} {value!r} {step}\n".encode()]


def _run_id(record: RunRecord, trial: int | None = None) -> str:
    return record.identity("run" if trial is None else f"trial {trial}")[:32]


def _dotted(tree: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Value]]:
    """A configuration as options of a command line: dotted names, and values of which nothing is rounded."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """A parameter's name, which is a file's: in characters that MLflow takes, no way out of the folder, and nobody else's."""
    plainly = re.sub(r"[^A-Za-z0-9_.\-]", "_", name)[:_LONGEST_NAME]
    free, number = plainly, 1
    while free in taken:
        number += 1
        free = f"{plainly}_{number}"
    return free


def _yaml(content: Mapping[str, Any]) -> list[bytes]:
    return [yaml.safe_dump(dict(content), allow_unicode=True, sort_keys=True).encode()]
