"""Export of a run's folder to another tool: tensorboard, mlflow, optuna or csv."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from aiperf.errors import BadConfiguration
from aiperf.export.record import RunRecord, record_of
from aiperf.files import shown
from aiperf.nearest import nearest
from aiperf.report.write import write as write_report

TOOLS = {"tensorboard": "", "mlflow": "mlflow.db", "optuna": "optuna-journal.log", "csv": ""}
"""Path to open with each tool, below the folder of the export."""


def tool(word: str) -> str:
    """Return `word` if it is the name of an export tool: tensorboard, mlflow, optuna or csv."""
    if word in TOOLS:
        return word
    raise BadConfiguration(
        f"export takes the name of a tool, {', '.join(TOOLS)}, but found {word!r}{nearest(word, TOOLS)}"
    )


def export(run_folder: Path, name: str, out: Path) -> Path:
    """Write a run in the format of a tool to the new folder `out`, completely or not at all."""
    if out.exists() or out.is_symlink():
        raise BadConfiguration(
            f"an export needs a new folder, but {shown(out)} exists. Remove it, or choose another: --out DIR"
        )
    record = record_of(run_folder)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir()
        try:
            _fill(record, name, unfinished, out)
            unfinished.rename(out)
        except BaseException:
            shutil.rmtree(unfinished)
            raise
    except OSError as error:
        raise BadConfiguration(
            f"an export is written below the run's folder or to --out, but {shown(out)} could not be written "
            f"({error.strerror}). Choose a writable folder with enough space: --out DIR"
        ) from error
    except ImportError as error:
        raise BadConfiguration(
            f"an export to {name} needs that tool's library, but it cannot be imported ({error}). Install it: "
            f"pip install aiperf-cluster[{name}]"
        ) from error
    return out / TOOLS[name]


def _fill(record: RunRecord, name: str, folder: Path, out: Path) -> None:
    """Write an export into a folder that is renamed to `out` afterwards. Imports the library of one tool."""
    if name == "tensorboard":
        from aiperf.export import tensorboard_files

        tensorboard_files.write(record, folder)
    elif name == "mlflow":
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # an export must not send data
        from aiperf.export import mlflow_store

        report = mlflow_store.write(record, folder, out) / "report"
        report.mkdir()
        write_report(record.report, report, record.folder)
    elif name == "optuna":
        from aiperf.export import optuna_file

        optuna_file.write(record, folder)
    else:
        from aiperf.export import csv_files

        csv_files.write(record, folder)
