"""Export of a run's folder to another tool: tensorboard, mlflow, optuna or csv."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from pathlib import Path

from aiperf.errors import BadConfiguration, explained
from aiperf.export.record import record_of
from aiperf.files import shown
from aiperf.nearest import nearest

TOOLS = {
    "tensorboard": ("aiperf.export.tensorboard_files", ""),
    "mlflow": ("aiperf.export.mlflow_store", "mlflow.db"),
    "optuna": ("aiperf.export.optuna_file", "optuna-journal.log"),
    "csv": ("aiperf.export.csv_files", ""),
}
"""Module whose `write(record, folder, out)` fills the folder that becomes `out`, and path to open below it, for each tool."""


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
    (module, opened), record = TOOLS[name], record_of(run_folder)
    unfinished = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with explained(out, "could not be written", "Choose a writable folder with enough space: --out DIR"):
            out.parent.mkdir(parents=True, exist_ok=True)
            unfinished.mkdir()
            try:
                import_module(module).write(record, unfinished, out)
                unfinished.rename(out)
            except BaseException:
                shutil.rmtree(unfinished)
                raise
    except ImportError as error:
        raise BadConfiguration(
            f"an export to {name} needs that tool's library, but it cannot be imported ({error}). Install it: "
            f"pip install {name if name == 'optuna' else f'aiperf-cluster[{name}]'}"
        ) from error
    return out / opened
