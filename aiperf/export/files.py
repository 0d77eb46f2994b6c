"""The files of an export, before and as they are written: a folder that is there whole, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from aiperf.errors import BadConfiguration
from aiperf.files import shown

File = tuple[str, Iterable[bytes]]
"""Its path below the export's folder, with '/' between the parts, and its content, piece by piece. A path that ends with '/' is
a folder."""


def refuse_if_there(out: Path) -> None:
    """Raises BadConfiguration where something lies at `out` already."""
    if out.exists() or out.is_symlink():
        raise BadConfiguration(
            f"an export goes into a folder of its own; {shown(out)} is there already. Remove it, or name another: --out DIR"
        )


def write_whole(out: Path, write: Callable[[Path], None]) -> None:
    """Has `write` fill a folder beside `out`, which then gets its name; what a failure leaves is removed.

    Raises:
        BadConfiguration: `out` is there already, or cannot be written.
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
            f"an export is written below the run's folder, or where --out says; {shown(out)} could not be written "
            f"({error.strerror}). Name a folder that can be written and has room: --out DIR"
        ) from error


def write_files(folder: Path, files: Iterable[File]) -> None:
    """Writes them below a folder. Raises OSError."""
    for name, content in files:
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(content)
