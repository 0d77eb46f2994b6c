"""The real tool opens an export, and its values equal those of the journal to the last digit."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import optuna
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import TrialState

from aiperf.export import csv_files, mlflow_store, optuna_file, tensorboard_files
from aiperf.export.export import TOOLS, export
from aiperf.export.record import RunRecord, record_of
from aiperf.journal.events import AnyEvent, EpochFinished, TrialFailed, TrialFinished, TrialProposed
from aiperf.journal.journal import read
from aiperf.report.facts import TrialFacts
from aiperf.sanitize import sanitize
from tests.builders.report_journal import Shape, invented
from tests.builders.run import any_run, evaluations, hostile, recorded, works
from tests.rigs.user import write_run

pytestmark = pytest.mark.filterwarnings(
    "ignore:The ``noload`` loader strategy is deprecated"
)  # MLflow's, by SQLAlchemy 2.1
RECORDED = ["resumed-v4", "resumed-v5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """A folder that is not there yet, each time."""
    numbers: Iterator[int] = iter(range(10_000))
    top = tmp_path_factory.mktemp("exports")
    return lambda: top / str(next(numbers))


# --- each tool's reader against the journal


def tensorboard_agrees(record: RunRecord, events: list[AnyEvent], out: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    out.mkdir()
    tensorboard_files.write(record, out, out)
    standing = evaluations(events)
    folders = {int(path.name): path for path in (out / "trials").glob("*")}
    assert sorted(folders) == sorted(each.number for each in events if isinstance(each, TrialProposed))
    for number, path in folders.items():
        reader = EventAccumulator(str(path), size_guidance={"scalars": 0})
        reader.Reload()
        for tag in ("accuracy", "training_loss") if number in standing else ():
            assert [(each.wall_time, each.step, each.value) for each in reader.Scalars(tag)] == [
                (record.unix(each.at), epoch, single(getattr(each, tag)))
                for epoch, each in sorted(standing[number].items())
            ]
        content = reader.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        hparams = metadata.parse_session_start_info_plugin_data(content).hparams
        assert hparams["batch_size"].number_value == facts_of(record, number).batch_size


def single(value: float) -> float:
    """As single precision has it, in which TensorBoard keeps scalars."""
    return float(np.float32(value))


def mlflow_agrees(record: RunRecord, events: list[AnyEvent], out: Path) -> None:
    from mlflow import MlflowClient

    out.mkdir()
    mlflow_store.log(record, out, out)
    client = MlflowClient(f"sqlite:///{out / 'mlflow.db'}")
    [experiment] = [each for each in client.search_experiments() if each.name != "Default"]
    assert experiment.name == sanitize(record.title)
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    [parent] = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    nested = {int(run.info.run_name.split()[1]): run for run in runs if run is not parent}
    assert {run.data.tags["mlflow.parentRunId"] for run in nested.values()} <= {parent.info.run_id}
    assert (out / parent.info.artifact_uri.removeprefix(f"file://{out}/") / "config.json").is_file()
    assert sorted(nested) == sorted(trial.number for trial in record.report.trials)
    score = record.report.score.flops_per_second
    assert parent.data.metrics.get("flops_per_second") == parent.data.metrics.get("score") == score
    assert parent.data.tags["aiperf.simulated"] == str(record.report.run.is_simulated).lower()
    standing = evaluations(events)
    for number, run in nested.items():
        metrics = client.get_metric_history(run.info.run_id, "accuracy") if number in standing else []
        assert [(each.step, each.value, each.timestamp) for each in metrics] == [
            (epoch, each.accuracy, round(1000 * record.unix(each.at)))
            for epoch, each in sorted(standing.get(number, {}).items())
        ]
        assert int(run.data.params["batch_size"]) == facts_of(record, number).batch_size


def optuna_agrees(record: RunRecord, events: list[AnyEvent], out: Path) -> None:
    out.mkdir()
    optuna_file.write(record, out, out)
    path = str(out / "optuna-journal.log")
    storage = JournalStorage(JournalFileBackend(path, lock_obj=JournalFileOpenLock(path)))
    study = optuna.load_study(study_name=record.title, storage=storage)
    standing = evaluations(events)
    finished = {event.trial for event in events if isinstance(event, TrialFinished)}
    failed = {event.trial for event in events if isinstance(event, TrialFailed)}
    assert [trial.user_attrs["trial"] for trial in study.trials] == [trial.number for trial in record.report.trials]
    for trial in study.trials:
        number = trial.user_attrs["trial"]
        assert trial.intermediate_values == {
            epoch: each.accuracy for epoch, each in sorted(standing.get(number, {}).items())
        }
        if trial.state is TrialState.COMPLETE:
            assert number in finished
            assert trial.value == facts_of(record, number).accuracy
        assert (trial.state is TrialState.FAIL) == (number in failed)
        started = facts_of(record, number).started
        if started is not None and trial.datetime_start is not None:
            began = trial.datetime_start.astimezone(UTC).timestamp()
            assert math.isclose(began, record.unix(started), abs_tol=2e-6, rel_tol=0)


def csv_agrees(record: RunRecord, events: list[AnyEvent], out: Path) -> None:
    out.mkdir()
    csv_files.write(record, out, out)
    tables = {path.stem: rows(path) for path in out.glob("*.csv")}
    [run] = tables["run"]
    score = record.report.score.flops_per_second
    assert run.get("flops_per_second", "") == run.get("score", "") == ("" if score is None else repr(score))
    assert [
        (
            float(row["start"]),
            float(row["end"]),
            int(row["training_images"]),
            float(row["busy_seconds"]),
        )
        for row in tables["intervals"]
    ] == works(events)
    assert [int(row["number"]) for row in tables["trials"]] == [trial.number for trial in record.report.trials]
    standing = evaluations(events)
    found: dict[int, dict[int, float]] = {}
    for row in tables["epochs"]:
        found.setdefault(int(row["trial"]), {})[int(row["epoch"])] = float(row["accuracy"])
    assert found == {
        trial: {epoch: each.accuracy for epoch, each in epochs.items()} for trial, epochs in standing.items()
    }
    assert all(f"| {name}.csv |" in (out / "README.md").read_text() for name in tables)


def facts_of(record: RunRecord, number: int) -> TrialFacts:
    [found] = [trial for trial in record.report.trials if trial.number == number]
    return found


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


AGREES: dict[str, Callable[[RunRecord, list[AnyEvent], Path], None]] = {
    "tensorboard": tensorboard_agrees,
    "mlflow": mlflow_agrees,
    "optuna": optuna_agrees,
    "csv": csv_agrees,
}


def test_every_tool_has_a_reader_here() -> None:
    assert AGREES.keys() == TOOLS.keys()


@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a smaller run shows no more, and each costs seconds
)
@given(seed=st.integers(0, 2**32), share=st.sampled_from([1.0, 0.5]))
def test_each_tool_reads_the_values_of_any_journal(folder: Callable[[], Path], seed: int, share: float) -> None:
    run = any_run(folder(), seed, share)
    record, events = record_of(run), list(read(run))
    for agrees in AGREES.values():
        agrees(record, events, folder())


@pytest.mark.parametrize("name", RECORDED)
def test_each_tool_reads_a_recorded_run_of_any_schema(folder: Callable[[], Path], name: str) -> None:
    run = recorded(folder(), name)
    record, events = record_of(run), list(read(run))
    for agrees in AGREES.values():
        agrees(record, events, folder())


@pytest.mark.parametrize("name", RECORDED)
def test_results_keep_the_former_names_of_figures(folder: Callable[[], Path], name: str) -> None:
    record = record_of(recorded(folder(), name))
    former = {field: value for field, value in asdict(record.report.score).items() if type(value) in (int, float)}

    assert former.items() <= record.results().items() and former["quality"] > 0


def test_a_run_without_validation_losses_is_exported(folder: Callable[[], Path]) -> None:
    """A detector has none."""
    events = [
        msgspec.structs.replace(event, validation_loss=None) if isinstance(event, EpochFinished) else event
        for event in invented(Shape(workers=1))
    ]
    record = record_of(write_run(folder(), events))

    for name in ("tensorboard", "mlflow"):
        AGREES[name](record, events, folder())
    curves = dict(record.trial_curves(record.report.trials[0]))
    assert curves["validation_loss"] == [] and curves["accuracy"]


def test_hostile_names_stay_in_the_folder_and_are_no_formula(folder: Callable[[], Path]) -> None:
    run = hostile(folder())
    record, events = record_of(run), list(read(run))
    for agrees in AGREES.values():
        out = folder()
        agrees(record, events, out)
        for path in out.rglob("*"):
            assert path.resolve().is_relative_to(out.resolve())
            if path.suffix in (".csv", ".md"):
                assert "\x1b" not in path.read_text()
        for row in (row for path in out.glob("*.csv") for row in rows(path)):
            assert not any(value.startswith("=") for value in row.values())


def test_tables_are_the_same_bytes_each_time(folder: Callable[[], Path]) -> None:
    run = recorded(folder(), "resumed-v5")
    first, second = (export(run, "csv", folder()) for _ in "12")
    assert {path.name: path.read_bytes() for path in first.iterdir()} == {
        path.name: path.read_bytes() for path in second.iterdir()
    }


def test_optuna_dashboard_opens_the_storage(tmp_path: Path, folder: Callable[[], Path]) -> None:
    from optuna_dashboard._app import create_app
    from optuna_dashboard._storage_url import get_storage

    run = recorded(folder(), "resumed-v5")
    target = export(run, "optuna", tmp_path / "out")

    app: Any = create_app(get_storage(str(target)))

    told = called(app, "/api/studies")
    assert "resumed" in told or record_of(run).title in told
    assert '"state"' in called(app, "/api/studies/0?after=0")


@pytest.mark.slow
@pytest.mark.parametrize("load_fast", ["true", "false"])
def test_tensorboard_serves_scalars_by_either_loader(tmp_path: Path, load_fast: str) -> None:
    run = recorded(tmp_path / "run", "resumed-v5")
    record = record_of(run)
    out = export(run, "tensorboard", tmp_path / "out")
    words = ["--logdir", str(out), "--port", "0", "--load_fast", load_fast, "--reload_interval", "1"]
    server = subprocess.Popen([sys.executable, "-m", "tensorboard.main", *words], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        address = next(found for line in server.stderr if (found := re.search(r"http://localhost:\d+/", line)))[0]
        number = next(iter(record.epochs))
        sub_run = next(path.name for path in (out / "trials").iterdir() if int(path.name) == number)
        query = f"{address}data/plugin/scalars/scalars?run=trials/{sub_run}&tag=accuracy"
        shown: list[list[float]] = []
        until = time.monotonic() + 120
        while not shown and time.monotonic() < until:  # it reads the files while it serves
            time.sleep(0.5)
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(query, timeout=60) as answer:
                shown = json.load(answer)
        assert [(step, single(value)) for _, step, value in shown] == [
            (epoch, single(each.accuracy)) for epoch, each in sorted(record.epochs[number].items())
        ]
    finally:
        server.terminate()
        server.communicate(timeout=60)


def called(app: Any, address: str) -> str:
    """Return the answer of a WSGI server."""
    path, _, query = address.partition("?")
    environment = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "x",
        "SERVER_PORT": "1",
    }
    environment |= {"wsgi.url_scheme": "http", "SERVER_PROTOCOL": "HTTP/1.1"}
    status: list[str] = []
    body = b"".join(
        app(
            environment | {"wsgi.input": io.BytesIO(), "wsgi.errors": io.StringIO()},
            lambda said, *_: status.append(said),
        )
    )
    assert status[0].startswith("200"), body
    return body.decode()
