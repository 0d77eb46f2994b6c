"""What stands of a run's checkpoints after its end: said in `checkpoints/kept.json`, which is written last. No torch here."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from aiperf.train.checkpoint_files import CHECKPOINTS

KEPT = "kept.json"


class KeptCheckpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Paths are relative to the run's folder."""

    keep: str
    """As storage.checkpoints says: best, all or none."""
    files: int
    """Checkpoints that stay."""
    bytes: int
    """Of those."""
    removed_files: int
    removed_bytes: int
    not_removed: int = 0
    """Files that the disk would not let go."""
    best: str | None = None
    """The best one that stays; None: none does."""
    trial: int | None = None
    """Whose it is."""
    epoch: int | None = None
    """After which it was written."""
    accuracy: float | None = None
    """Measured after that epoch, as the journal says; 0..1, top-1."""
    graph: str | None = None
    """The file of its architecture."""

    def save(self, run_folder: Path) -> None:
        """Whole or not at all. Raises OSError."""
        file = run_folder / CHECKPOINTS / KEPT
        temporary = file.with_name(f".{KEPT}.{os.getpid()}.tmp")
        try:
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)


def kept(run_folder: Path) -> KeptCheckpoints | None:
    """None: nobody has said; the run goes on, ended before its time, or is an older release's, or the file is none of ours."""
    try:
        return msgspec.json.decode((run_folder / CHECKPOINTS / KEPT).read_bytes(), type=KeptCheckpoints)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
