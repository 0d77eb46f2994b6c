"""Checkpoints that remain after the end of a run, recorded in `checkpoints/kept.json`.

The file is written last. No torch here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from aiperf.atomic_files import replace_file
from aiperf.files import require_file
from aiperf.train.checkpoints.checkpoint_files import CHECKPOINTS

KEPT = "kept.json"
LARGEST = 1 << 16
"""Bytes of the file. A run writes less than 1 kB."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class KeptCheckpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Result of clearing a run's checkpoints. Paths are relative to the run's folder."""

    keep: str
    """Value of storage.checkpoints: best, all or none."""
    files: Count
    """Number of remaining checkpoints."""
    bytes: Count
    """Size of the remaining checkpoints."""
    removed_files: Count
    removed_bytes: Count
    not_removed: Count = 0
    """Number of files that the disk did not delete."""
    best: str | None = None
    """Path of the best remaining checkpoint. None if none remains."""
    trial: Count | None = None
    """Trial of the best remaining checkpoint."""
    epoch: Count | None = None
    """Epoch after which it was written."""
    accuracy: float | None = None
    """Top-1 validation accuracy after that epoch, from the journal, 0..1."""
    graph: str | None = None
    """Path of its graph file."""

    def save(self, run_folder: Path) -> None:
        """Write the file atomically. Raises OSError."""
        content = msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"
        replace_file(run_folder / CHECKPOINTS / KEPT, content)


def kept(run_folder: Path) -> KeptCheckpoints | None:
    """Read the file.

    None if it is absent or unreadable: the run continues, ended early, or is from an older release.
    """
    path = run_folder / CHECKPOINTS / KEPT
    try:
        require_file(path)
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        return None if len(content) > LARGEST else msgspec.json.decode(content, type=KeptCheckpoints)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
