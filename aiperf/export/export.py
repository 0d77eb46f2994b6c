"""A run's folder is exported: to which tools, what that takes, and where it goes."""

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
    "tensorboard": "event files: the run's scalars, and a sub-run a trial with its hyperparameters",
    "mlflow": "a file store, mlruns/: an experiment with a run, and below it a nested run a trial",
    "optuna": "the file of a JournalStorage: a study of all trials, and one of what tuning was told",
    "csv": "tables: run, trials, epochs, intervals, workers, telemetry; README.md says what each column is",
}


def tool(word: str) -> str:
    """The tool that a word names. Raises BadConfiguration where there is none; the message names the nearest."""
    if word in TOOLS:
        return word
    near = difflib.get_close_matches(word.lower(), TOOLS, n=1, cutoff=0.4)
    raise BadConfiguration(
        f"a run is exported to one of {', '.join(TOOLS)}; found {word!r}"
        + (f" (did you mean {near[0]!r}?)" if near else "")
    )


def export(run_folder: Path, name: str, out: Path) -> Path:
    """Writes a run's export into `out`, whole or not at all; gives what the tool is to be pointed at.

    Raises:
        NoSuchRun: there is no journal.
        JournalDamaged: a line of it does not follow from the one before.
        BadConfiguration: the tool's library is not installed, `out` is there already or cannot be written.
    """
    if name == "tensorboard":
        _require_tensorboard()
    target = {"mlflow": out / "mlruns", "optuna": out / "optuna-journal.log"}.get(name, out)

    refuse_if_there(out)
    record = record_of(run_folder)

    def fill(folder: Path) -> None:
        write_files(folder, files(record, name, out))
        if name == "mlflow":
            from aiperf.export.mlflow_files import artifacts_of

            report = folder / artifacts_of(record) / "report"
            report.mkdir()
            write_report(record.report, report, run_folder)

    write_whole(out, fill)
    return target


def files(record: RunRecord, name: str, out: Path) -> Iterable[File]:
    """The files of an export that will lie in `out`: the same record gives the same bytes."""
    if name == "mlflow":
        from aiperf.export import mlflow_files

        return mlflow_files.files(record, out)
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
            f"event files are written by TensorBoard's own library; it does not import here ({error}). Install it: "
            "pip install aiperf-cluster[tensorboard]"
        ) from error
