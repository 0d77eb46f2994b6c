"""Shared folder of all nodes during checks, with the driver's mark and the files through which ranks connect."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiperf.preflight.reading import MARK


@dataclass(frozen=True, slots=True)
class SharedFolderMark:
    """A folder, and the content of its file MARK."""

    folder: Path
    mark: str


@contextmanager
def meeting(parent: Path) -> Iterator[SharedFolderMark]:
    """Create a shared folder in `parent`, which is created if missing. The folder is removed with the context."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".preflight-", dir=parent.resolve()))
    try:
        mark = secrets.token_hex(16)
        (folder / MARK).write_text(mark)
        yield SharedFolderMark(folder, mark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
