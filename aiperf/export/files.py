"""Files of an export, written atomically: the folder is complete, or it does not exist."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from aiperf.errors import BadConfiguration
from aiperf.files import shown

File = tuple[str, Iterable[bytes]]
"""Path below the export's folder with '/' between the parts, and content in pieces."""


def refuse_if_there(out: Path) -> None:
    """Raise BadConfiguration if `out` exists."""
    if out.exists() or out.is_symlink():
        raise BadConfiguration(
            f"an export needs a new folder; {shown(out)} is there already. Remove it, or choose another: --out DIR"
        )


def write_whole(out: Path, write: Callable[[Path], None]) -> None:
    """Call `write` with a temporary folder next to `out`, then rename it to `out`. Remove it after an error.

    Raises:
        BadConfiguration: `out` exists already or cannot be written.
    """
    refuse_if_there(out)
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
            f"an export is written below the run's folder or to --out; {shown(out)} could not be written "
            f"({error.strerror}). Choose a writable folder with enough space: --out DIR"
        ) from error


def write_files(folder: Path, files: Iterable[File]) -> None:
    """Write the files below a folder. Raises OSError."""
    for name, content in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(content)
