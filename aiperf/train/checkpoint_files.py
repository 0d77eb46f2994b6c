"""Where a run's checkpoints lie: one file for each trial and epoch, `trial-7.epoch-3.safetensors`. No torch here.

Several epochs of a trial may stand at a time: a driver that was killed knows only the epochs that it wrote into its
journal, and takes the trial up after the last of those. Who inherits from a trial takes its newest. Files of releases up to
0.2 end in `.pt`; a run of theirs that is resumed has both.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

CHECKPOINTS = "checkpoints"
"""The folder of them in a run's folder."""
_ENDS = (".safetensors", ".pt")
"""Ours, and that of releases up to 0.2."""
_NAME = re.compile(r"trial-(?P<trial>\d+)\.epoch-(?P<epoch>\d+)\.(?:safetensors|pt)")


_BEGUN = re.compile(r"\.(?P<name>.+)\.\d+\.tmp")
"""What a rank has begun to write, or had when it was killed."""


def trial_of(name: str) -> int | None:
    """Whose checkpoint a file is, whole or begun; None: it is none.

    >>> trial_of("trial-7.epoch-3.safetensors"), trial_of(".trial-7.epoch-3.safetensors.4711.tmp"), trial_of("notes.txt")
    (7, 7, None)
    """
    begun = _BEGUN.fullmatch(name)
    found = _NAME.fullmatch(begun["name"] if begun else name)
    return int(found["trial"]) if found else None


def checkpoint_of(name: str) -> tuple[int, int] | None:
    """Trial and epoch of a whole checkpoint; None: it is none.

    >>> checkpoint_of("trial-7.epoch-3.safetensors"), checkpoint_of(".trial-7.epoch-3.safetensors.4711.tmp")
    ((7, 3), None)
    """
    found = _NAME.fullmatch(name)
    return (int(found["trial"]), int(found["epoch"])) if found else None


def is_of_old_form(path: Path) -> bool:
    """Whether a release up to 0.2 wrote the file."""
    return path.suffix == _ENDS[1]


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """A folder of checkpoints, shared by the workers of a run."""

    path: Path

    def file(self, trial: int, epoch: int) -> Path:
        """Where it is to be written."""
        return self._files(trial, epoch)[0]

    def _files(self, trial: int, epoch: int) -> list[Path]:
        """Where it can be, ours first: an epoch that was trained again is read as it was written last."""
        return [self.path / f"trial-{trial}.epoch-{epoch}{end}" for end in _ENDS]

    def written(self, trial: int, epoch: int) -> Path | None:
        return next((file for file in self._files(trial, epoch) if file.exists()), None)

    def epochs(self, trial: int) -> tuple[int, ...]:
        """The epochs after which the trial can be taken up, ascending."""
        found = (_NAME.fullmatch(file.name) for file in self.path.glob(f"trial-{trial}.epoch-*"))
        return tuple(sorted({int(match["epoch"]) for match in found if match}))

    def newest(self, trial: int) -> Path | None:
        epochs = self.epochs(trial)
        return self.written(trial, epochs[-1]) if epochs else None

    def drop(self, trial: int) -> None:
        """Removes all of a trial's, what a killed rank had begun to write included. None there is not an error: it may have
        been dropped before."""
        for epoch in self.epochs(trial):
            self._remove(trial, epoch)
        for begun in self.path.glob(f".trial-{trial}.epoch-*.tmp"):
            begun.unlink(missing_ok=True)

    def prune(self, trial: int, seconds: float) -> None:
        """Removes those whose successor has stood for at least so long; with 0, all but the newest."""
        now = time.time()  # file times are the host's wall clock; a step of it keeps a file longer or shorter, no more
        epochs = self.epochs(trial)
        for epoch, successor in pairwise(epochs):
            try:
                following = self.written(trial, successor)
                if following is not None and now - following.stat().st_mtime >= seconds:
                    self._remove(trial, epoch)
            except FileNotFoundError:
                continue  # dropped by another worker meanwhile

    def _remove(self, trial: int, epoch: int) -> None:
        for file in self._files(trial, epoch):
            file.unlink(missing_ok=True)
