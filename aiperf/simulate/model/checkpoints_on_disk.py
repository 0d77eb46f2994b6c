"""Which checkpoints lie in the run's folder. They outlive workers and drivers, as files do."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class Checkpoints:
    """Of each trial the epochs whose weights can be taken up, and when each was written."""

    keep_seconds: float
    """A checkpoint outlives its successor by so long: a driver that was killed may not have heard of the successor."""
    _written: dict[int, dict[int, tuple[float, float]]] = field(default_factory=dict)

    def save(self, trial: int, epoch: int, experience: float, at: float) -> None:
        """Writes one, and removes those whose successors have stood long enough."""
        written = self._written.setdefault(trial, {})
        written[epoch] = (at, experience)
        epochs = sorted(written)
        for earlier, successor in pairwise(epochs):
            if at - written[successor][0] >= self.keep_seconds and earlier != epoch:
                del written[earlier]

    def holds(self, trial: int, epoch: int) -> bool:
        """Whether a trial can be taken up after this epoch."""
        return epoch in self._written.get(trial, {})

    def newest(self, trial: int) -> float | None:
        """The experience in a trial's newest weights; None where there are none."""
        written = self._written.get(trial)
        return written[max(written)][1] if written else None

    def drop(self, trial: int) -> None:
        """Removes all of a trial's."""
        self._written.pop(trial, None)

    def __len__(self) -> int:
        return len(self._written)
