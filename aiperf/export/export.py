"""Export of a run's folder to another tool."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from aiperf.errors import BadConfiguration
from aiperf.export.record import File, RunRecord, record_of
from aiperf.files import shown
from aiperf.nearest import nearest
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
    raise BadConfiguration(f"a run is exported to one of {', '.join(TOOLS)}, but found {word!r}{nearest(word, TOOLS)}")


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

    require_new(out)
    record = record_of(run_folder)

    def fill(folder: Path) -> None:
        if name == "mlflow":
            from aiperf.export import mlflow_store

            report = mlflow_store.write(record, folder, out) / "report"
            report.mkdir()
            write_report(record.report, report, run_folder)
        else:
            write_files(folder, files(record, name))

    write_atomically(out, fill)
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


def require_new(out: Path) -> None:
    """Raise BadConfiguration if `out` exists."""
    if out.exists() or out.is_symlink():
        raise BadConfiguration(
            f"an export needs a new folder, but {shown(out)} exists. Remove it, or choose another: --out DIR"
        )


def write_atomically(out: Path, write: Callable[[Path], None]) -> None:
    """Call `write` with a temporary folder next to `out`, then rename it to `out`. Remove it after an error.

    Raises:
        BadConfiguration: `out` exists already or cannot be written.
    """
    require_new(out)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir()
        try:
            write(unfinished)
            unfinished.rename(out)
        except BaseException:
            shutil.rmtree(unfinished)
            raise
    except OSError as error:
        raise BadConfiguration(
            f"an export is written below the run's folder or to --out, but {shown(out)} could not be written "
            f"({error.strerror}). Choose a writable folder with enough space: --out DIR"
        ) from error


def write_files(folder: Path, files: Iterable[File]) -> None:
    """Write the files below a folder. Raises OSError."""
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(content)
