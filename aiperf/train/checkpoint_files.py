"""Where a run's checkpoints lie: one file for each trial and epoch, `trial-7.epoch-3.pt`. No torch here.

Several epochs of a trial may stand at a time: a driver that was killed knows only the epochs that it wrote into its
journal, and takes the trial up after the last of those. Who inherits from a trial takes its newest.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_NAME = re.compile(r"trial-(?P<trial>\d+)\.epoch-(?P<epoch>\d+)\.pt")


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """A folder of checkpoints, shared by the workers of a run."""

    path: Path

    def file(self, trial: int, epoch: int) -> Path:
        return self.path / f"trial-{trial}.epoch-{epoch}.pt"

    def epochs(self, trial: int) -> tuple[int, ...]:
        """The epochs after which the trial can be taken up, ascending."""
        found = (_NAME.fullmatch(file.name) for file in self.path.glob(f"trial-{trial}.epoch-*.pt"))
        return tuple(sorted(int(match["epoch"]) for match in found if match))

    def newest(self, trial: int) -> Path | None:
        epochs = self.epochs(trial)
        return self.file(trial, epochs[-1]) if epochs else None

    def drop(self, trial: int) -> None:
        """Removes all of a trial's, what a killed rank had begun to write included. None there is not an error: it may have
        been dropped before."""
        for epoch in self.epochs(trial):
            self.file(trial, epoch).unlink(missing_ok=True)
        for begun in self.path.glob(f".trial-{trial}.epoch-*.tmp"):
            begun.unlink(missing_ok=True)

    def prune(self, trial: int, seconds: float) -> None:
        """Removes those whose successor has stood for at least so long; with 0, all but the newest."""
        now = time.time()  # file times are the host's wall clock; a step of it keeps a file longer or shorter, no more
        epochs = self.epochs(trial)
        for epoch, successor in pairwise(epochs):
            try:
                if now - self.file(trial, successor).stat().st_mtime >= seconds:
                    self.file(trial, epoch).unlink(missing_ok=True)
            except FileNotFoundError:
                continue  # dropped by another worker meanwhile
