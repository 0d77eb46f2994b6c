"""State of simulated machines: clock, accelerator memory and checkpoints. A restart of the driver does not change it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from aiperf.errors import BadConfiguration
from aiperf.train.trainer_config import ELEMENT_BYTES, TrainerConf, nothing_fits
from cluster.simulated import SimulatedConf
from morphism import Architecture, Cost, cost_of
from searchers.batch_sizes import largest


class VirtualClock:
    """Virtual clock of a simulated run in seconds."""

    def __init__(self, already: float = 0.0) -> None:
        """`already`: time of the clock at the beginning, in seconds."""
        self._now = already

    def now(self) -> float:
        """Return the simulated seconds since the run began."""
        return self._now

    def advance(self, to: float) -> None:
        """Set the clock to the time `to`, in seconds since the run began. It must not be in the past."""
        assert to >= self._now, f"time would run back from {self._now!r} to {to!r}"
        self._now = to


@dataclass(frozen=True, slots=True)
class AcceleratorMemory:
    usable_bytes: int
    bytes_per_element: int
    ceiling: int
    """Largest batch for the starting graph, as each worker reports it."""

    def holds(self, figures: Cost, batch_size: int) -> bool:
        """Return True if a network can be trained with `batch_size` images per accelerator in this memory."""
        return figures.training_memory(batch_size, self.bytes_per_element) <= self.usable_bytes


def memory_of(conf: SimulatedConf, trainer: TrainerConf, start: Architecture) -> AcceleratorMemory:
    """Return the memory of a simulated accelerator in bytes, and the largest batch of the starting network (ceiling) in images.

    `conf`: the simulated cluster. `trainer`: precision and memory limit. `start`: the starting network. The ceiling is
    `conf.ceiling`, or the largest batch that fits into trainer.ceiling_share of the memory (example: ResNet-50 v1, 224
    pixels, 16 bits, 32 GiB: 672).

    Raises:
        BadConfiguration: the starting network fits at no batch size.
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
    """Simulated store of checkpoints, by trial (training of one network) and epoch."""

    keep_seconds: float
    """Seconds that a checkpoint is kept after its successor is written, because a killed driver may not know the successor."""
    _written: dict[int, dict[int, tuple[float, float]]] = field(default_factory=dict)

    def save(self, trial: int, epoch: int, experience: float, at: float) -> None:
        """Store a checkpoint of a trial, and remove its older ones with a successor older than `keep_seconds`."""
        written = self._written.setdefault(trial, {})
        written[epoch] = (at, experience)
        epochs = sorted(written)
        for earlier, successor in pairwise(epochs):
            if at - written[successor][0] >= self.keep_seconds and earlier != epoch:
                del written[earlier]

    def holds(self, trial: int, epoch: int) -> bool:
        """Return True if the checkpoint of trial number `trial` after `epoch` (from 1) is stored."""
        return epoch in self._written.get(trial, {})

    def newest(self, trial: int) -> float | None:
        """Epochs of training that a child inherits from the newest checkpoint. None without a checkpoint."""
        written = self._written.get(trial)
        return written[max(written)][1] if written else None

    def drop(self, trial: int) -> None:
        """Remove all checkpoints of trial number `trial`. No error if it has none."""
        self._written.pop(trial, None)

    def __len__(self) -> int:
        return len(self._written)
