"""What a rank has for the whole run, trial after trial: the opened data set, the device, the ranks beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch

from aiperf.data.opened import OpenData
from aiperf.train.allocator import keep_freed_memory
from aiperf.train.ceiling import memory_of_rank
from aiperf.train.checkpoint_writer import Writer
from aiperf.train.collectives.collective import Collective
from aiperf.train.device_timer import Timeline, timeline_of
from aiperf.train.execution_mode import GUESSES, Expectations, modes_of
from aiperf.train.precision import Precision, choose
from aiperf.train.stages import Stage
from aiperf.train.trainer_config import TrainerConf
from morphism import Graph


class Liveness(Protocol):
    """A rank's bond to its supervisor."""

    def enter(self, stage: Stage, silent_seconds: float) -> None:
        """Says that it lives, what it is at now, and how long it may be silent in it."""
        ...

    def beat(self, step: int, stage: Stage, silent_seconds: float) -> None:
        """The same, of a step of training."""
        ...

    def processed(self, training: int, validation: int) -> None:
        """Says that this rank has processed so many images more."""
        ...

    def images(self) -> tuple[int, int]:
        """Training and validation images that all ranks have processed since they were started, as far as it is known here:
        those of other hosts are heard of a little later."""
        ...

    def own_images(self) -> tuple[int, int]:
        """Those of this rank."""
        ...

    def is_asked_for_sums(self) -> bool:
        """Whether somebody wishes to hear the sums now: true once for each time that it is wished."""
        ...


class Unwatched:
    """The life of a rank that nobody watches: alone, and never asked for anything."""

    def __init__(self) -> None:
        self._images = (0, 0)

    def enter(self, stage: Stage, silent_seconds: float) -> None:
        return None

    def beat(self, step: int, stage: Stage, silent_seconds: float) -> None:
        return None

    def processed(self, training: int, validation: int) -> None:
        trained, validated = self._images
        self._images = (trained + training, validated + validation)

    def images(self) -> tuple[int, int]:
        return self._images

    def own_images(self) -> tuple[int, int]:
        return self._images

    def is_asked_for_sums(self) -> bool:
        return False


@dataclass(slots=True)
class RankContext:
    """One rank's. `Place.make` chooses the rest from the configuration."""

    conf: TrainerConf
    data: OpenData
    start: Graph
    """The run's starting graph, from which lineages begin."""
    device: torch.device
    collective: Collective
    precision: Precision
    timeline: Timeline
    memory_bytes: int
    """What each rank may use for training: the same on all."""
    writer: Writer | None
    """Of checkpoints: rank 0's; None elsewhere."""
    liveness: Liveness = field(default_factory=Unwatched)
    expected: Expectations = field(default_factory=lambda: Expectations(GUESSES))
    """Of ways to launch a step."""
    compiler: str = "inductor"
    """The backend of torch.compile."""

    @staticmethod
    def make(
        conf: TrainerConf,
        data: OpenData,
        start: Graph,
        device: torch.device,
        collective: Collective,
        writer: Writer | None,
        liveness: Liveness | None = None,
        on_host: int = 1,
    ) -> RankContext:
        """Also sets torch's process-wide switches of precision and, on a processor, keeps the process's freed memory.
        `on_host`: how many ranks share this one's host.

        Raises BadConfiguration for a precision or a way of launching that the device lacks."""
        modes_of(conf, on_cuda=device.type == "cuda")
        precision = choose(conf.precision, device)
        precision.switch_on()
        if device.type == "cpu":
            keep_freed_memory()
        return RankContext(
            conf=conf,
            data=data,
            start=start,
            device=device,
            collective=collective,
            precision=precision,
            timeline=timeline_of(device),
            memory_bytes=memory_of_rank(conf, device, collective, on_host),
            writer=writer,
            liveness=liveness or Unwatched(),
        )

    @property
    def is_first(self) -> bool:
        """Whether this rank speaks for all."""
        return self.collective.rank == 0

    def all_agree(self, own: bool) -> bool:
        """Whether it is so on every rank; all ranks must ask."""
        return self.collective.total([0.0 if own else 1.0])[0] == 0.0
