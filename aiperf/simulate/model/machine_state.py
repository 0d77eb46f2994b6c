"""State of simulated machines: clock, accelerator memory and checkpoints. Driver restarts do not change it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from aiperf.errors import BadConfiguration
from aiperf.train.memory.batch_sizes import largest, nothing_fits
from aiperf.train.trainer_config import ELEMENT_BYTES, TrainerConf
from cluster.simulated import SimulatedConf
from morphism import Architecture, Cost, cost_of


class VirtualClock:
    """Seconds since the start of the run. Driver and executor share one clock, also across driver restarts."""

    def __init__(self, already: float = 0.0) -> None:
        self._now = already

    def now(self) -> float:
        return self._now

    def advance(self, to: float) -> None:
        """Set the clock to a time in seconds, which must not be in the past."""
        assert to >= self._now, f"time would run back from {self._now!r} to {to!r}"
        self._now = to


@dataclass(frozen=True, slots=True)
class AcceleratorMemory:
    """Memory of one accelerator, the same for all."""

    usable_bytes: int
    bytes_per_element: int
    """Bytes of one element of an activation."""
    ceiling: int
    """Largest batch for the starting graph, as each worker reports it."""

    def holds(self, figures: Cost, batch_size: int) -> bool:
        """Return True if an architecture can be trained at a batch size. A rank makes the same check before it builds."""
        return figures.training_memory(batch_size, self.bytes_per_element) <= self.usable_bytes


def memory_of(conf: SimulatedConf, trainer: TrainerConf, start: Architecture) -> AcceleratorMemory:
    """Return the memory of a configuration's accelerators, with the largest batch (ceiling) of the starting graph.

    The ceiling is `conf.ceiling`, or computed as on a real rank. For ResNet-50 v1 of 224 pixels at 16 bits in 32 GiB it is 672.
    A batch of 681 would fill 90 % of the memory. Raises BadConfiguration if the starting graph fits at no batch size.
    """
    usable = conf.memory_bytes if trainer.memory_limit_bytes is None else trainer.memory_limit_bytes
    element = conf.bytes_per_element if trainer.precision == "auto" else ELEMENT_BYTES[trainer.precision]
    allowed = int(usable * trainer.ceiling_share)
    reckoned = largest(lambda batch: cost_of(start).training_memory(batch, element) <= allowed)
    if not reckoned:
        raise BadConfiguration(nothing_fits(start, element, allowed))
    return AcceleratorMemory(usable, element, conf.ceiling or reckoned)


@dataclass(slots=True)
class Checkpoints:
    """Resumable epochs of each trial, with the time of writing."""

    keep_seconds: float
    """Seconds that a checkpoint is kept after its successor is written, because a killed driver may not know the successor."""
    _written: dict[int, dict[int, tuple[float, float]]] = field(default_factory=dict)

    def save(self, trial: int, epoch: int, experience: float, at: float) -> None:
        """Record a checkpoint, written at time `at`, and remove those whose successors are old enough."""
        written = self._written.setdefault(trial, {})
        written[epoch] = (at, experience)
        epochs = sorted(written)
        for earlier, successor in pairwise(epochs):
            if at - written[successor][0] >= self.keep_seconds and earlier != epoch:
                del written[earlier]

    def holds(self, trial: int, epoch: int) -> bool:
        """Return True if the checkpoint of a trial after this epoch is stored, so that the trial can be resumed."""
        return epoch in self._written.get(trial, {})

    def newest(self, trial: int) -> float | None:
        """Return the experience, in epochs, of a trial's newest stored weights. None if no weights are stored."""
        written = self._written.get(trial)
        return written[max(written)][1] if written else None

    def drop(self, trial: int) -> None:
        """Remove all checkpoints of a trial."""
        self._written.pop(trial, None)

    def __len__(self) -> int:
        return len(self._written)
