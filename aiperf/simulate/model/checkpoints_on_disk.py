"""Checkpoints in the run's folder. Like files they outlive workers and drivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class Checkpoints:
    """Resumable epochs of each trial, with the time of writing."""

    keep_seconds: float
    """Time that a checkpoint is kept after its successor is written, because a killed driver may not know the successor."""
    _written: dict[int, dict[int, tuple[float, float]]] = field(default_factory=dict)

    def save(self, trial: int, epoch: int, experience: float, at: float) -> None:
        """Write a checkpoint, and remove those whose successors are old enough."""
        written = self._written.setdefault(trial, {})
        written[epoch] = (at, experience)
        epochs = sorted(written)
        for earlier, successor in pairwise(epochs):
            if at - written[successor][0] >= self.keep_seconds and earlier != epoch:
                del written[earlier]

    def holds(self, trial: int, epoch: int) -> bool:
        """Return True if a trial can be resumed after this epoch."""
        return epoch in self._written.get(trial, {})

    def newest(self, trial: int) -> float | None:
        """Return the experience in a trial's newest weights. None if there are none."""
        written = self._written.get(trial)
        return written[max(written)][1] if written else None

    def drop(self, trial: int) -> None:
        """Remove all checkpoints of a trial."""
        self._written.pop(trial, None)

    def __len__(self) -> int:
        return len(self._written)
