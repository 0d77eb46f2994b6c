"""Names and removal of a run's checkpoint files, one for each trial and epoch. No torch here."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import msgspec

from aiperf.accounting.work_log import SealedEpoch
from aiperf.atomic_files import replace_file
from aiperf.files import require_file, sha256_of

CHECKPOINTS = "checkpoints"
BEST = "best."
"""Prefix of the driver's hard link to the checkpoint of the best epoch so far."""
_NAME = re.compile(r"trial-(?P<trial>\d+)\.epoch-(?P<epoch>\d+)\.safetensors")


_BEGUN = re.compile(r"\.(?P<name>.+)\.\d+\.tmp")
"""Temporary file that a rank writes, or left behind when it was killed."""


def link_of(file: Path) -> Path:
    return file.with_name(f"{BEST}{file.name}")


def trial_of(name: str) -> int | None:
    """Trial in the name of a checkpoint file, complete or temporary. None for other names.

    >>> trial_of("trial-7.epoch-3.safetensors"), trial_of(".trial-7.epoch-3.safetensors.4711.tmp"), trial_of("notes.txt")
    (7, 7, None)
    """
    begun = _BEGUN.fullmatch(name)
    match = _NAME.fullmatch(begun["name"] if begun else name)
    return int(match["trial"]) if match else None


def checkpoint_of(name: str) -> tuple[int, int] | None:
    """(trial, epoch) in the name of a complete checkpoint file. None for other names.

    >>> checkpoint_of("trial-7.epoch-3.safetensors"), checkpoint_of(".trial-7.epoch-3.safetensors.4711.tmp")
    ((7, 3), None)
    """
    match = _NAME.fullmatch(name)
    return (int(match["trial"]), int(match["epoch"])) if match else None


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    path: Path

    def file(self, trial: int, epoch: int) -> Path:
        return self.path / f"trial-{trial}.epoch-{epoch}.safetensors"

    def written(self, trial: int, epoch: int) -> Path | None:
        file = self.file(trial, epoch)
        return next((each for each in (file, link_of(file)) if each.exists()), None)

    def epochs(self, trial: int) -> tuple[int, ...]:
        """Epochs of the trial with a checkpoint file, ascending."""
        match = (_NAME.fullmatch(file.name) for file in self.path.glob(f"trial-{trial}.epoch-*"))
        return tuple(sorted({int(match["epoch"]) for match in match if match}))

    def newest(self, trial: int) -> Path | None:
        epochs = self.epochs(trial)
        return self.written(trial, epochs[-1]) if epochs else None

    def drop(self, trial: int) -> None:
        """Remove all checkpoints of a trial, including temporary files. A missing file is not an error."""
        for epoch in self.epochs(trial):
            self.file(trial, epoch).unlink(missing_ok=True)
        for begun in self.path.glob(f".trial-{trial}.epoch-*.tmp"):
            begun.unlink(missing_ok=True)

    def prune(self, trial: int, seconds: float) -> None:
        """Remove each checkpoint if that of the next saved epoch is at least `seconds` old. The newest remains."""
        now = time.time()  # file times are the host's wall clock. A step of it only keeps a file longer or shorter
        epochs = self.epochs(trial)
        for epoch, successor in pairwise(epochs):
            try:
                following = self.written(trial, successor)
                if following is not None and now - following.stat().st_mtime >= seconds:
                    self.file(trial, epoch).unlink(missing_ok=True)
            except FileNotFoundError:
                continue  # dropped by another worker meanwhile


def sealed_file(run_folder: Path, sealed: SealedEpoch) -> Path | None:
    """Return the checkpoint of an evaluation in a run's folder. None without a file of its SHA-256."""
    file = CheckpointFolder(run_folder / CHECKPOINTS).written(sealed.evaluation.trial, sealed.evaluation.epoch)
    with suppress(OSError):
        if file is not None and sha256_of(file) == sealed.sha256:
            return file
    return None


KEPT = "kept.json"
LARGEST = 1 << 16
"""Bytes of the file. A run writes less than 1 kB."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class KeptCheckpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Checkpoints that remain in a run's folder after the run (kept.json), with paths relative to it."""

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
        content = msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"
        replace_file(run_folder / CHECKPOINTS / KEPT, content)


def kept(run_folder: Path) -> KeptCheckpoints | None:
    """Content of checkpoints/kept.json. None if the run continues, ended early, or is from an older release."""
    path = run_folder / CHECKPOINTS / KEPT
    try:
        require_file(path)
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        return None if len(content) > LARGEST else msgspec.json.decode(content, type=KeptCheckpoints)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
