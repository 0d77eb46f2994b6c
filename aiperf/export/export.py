"""Export of a run's folder to another tool."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from pathlib import Path

from aiperf.errors import BadConfiguration
from aiperf.export.files import File, refuse_if_there, write_files, write_whole
from aiperf.export.record import RunRecord, record_of
from aiperf.report.write import write as write_report

TOOLS = {
    "tensorboard": "event files: scalars of the run, and one sub-run per trial with its hyperparameters",
    "mlflow": "a database, mlflow.db: an experiment with one run, and one nested run per trial",
    "optuna": "the file of a JournalStorage: a study of all trials, and one of the trials that tuning observed",
    "csv": "tables: run, trials, epochs, intervals, workers, telemetry; README.md describes each column",
}


def tool(word: str) -> str:
    """Return the tool with this name.

    Raises:
        BadConfiguration: if there is none. The message suggests the nearest name.
    """
    if word in TOOLS:
        return word
    near = difflib.get_close_matches(word.lower(), TOOLS, n=1, cutoff=0.4)
    raise BadConfiguration(
        f"a run is exported to one of {', '.join(TOOLS)}, but found {word!r}"
        + (f" (did you mean {near[0]!r}?)" if near else "")
    )


def export(run_folder: Path, name: str, out: Path) -> Path:
    """Write a run's export to `out`, completely or not at all. Return the path to open with the tool.

    Raises:
        NoSuchRun: there is no journal.
        JournalDamaged: a line of it is invalid after the previous lines.
        BadConfiguration: the tool's library is not installed, or `out` exists already or cannot be written.
    """
    if name == "tensorboard":
        _require_tensorboard()
    target = {"mlflow": out / "mlflow.db", "optuna": out / "optuna-journal.log"}.get(name, out)

    refuse_if_there(out)
    record = record_of(run_folder)

    def fill(folder: Path) -> None:
        if name == "mlflow":
            from aiperf.export import mlflow_store

            report = mlflow_store.write(record, folder, out) / "report"
            report.mkdir()
            write_report(record.report, report, run_folder)
        else:
            write_files(folder, files(record, name))

    write_whole(out, fill)
    return target


def files(record: RunRecord, name: str) -> Iterable[File]:
    """Return the files of an export for TensorBoard, Optuna or CSV. Equal records give equal bytes."""
    if name == "tensorboard":
        from aiperf.export import tensorboard_files

        return tensorboard_files.files(record)
    if name == "optuna":
        from aiperf.export import optuna_file

        return optuna_file.files(record)
    from aiperf.export import csv_files

    return csv_files.files(record)


def _require_tensorboard() -> None:
    try:
        importlib.import_module("tensorboard.summary.writer.record_writer")
    except ImportError as error:
        raise BadConfiguration(
            f"event files need TensorBoard's own library, which cannot be imported here ({error}). Install it: "
            "pip install aiperf-cluster[tensorboard]"
        ) from error
