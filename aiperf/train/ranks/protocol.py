"""Places of a worker's ranks, and the pickled messages between ranks and supervisor, over one pipe per rank. No torch here."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiperf.data.dataset_config import DataSetConf
from aiperf.journal.events import Cause
from aiperf.journal.messages import Message, Train
from aiperf.train.collectives import MeetingPlace
from aiperf.train.heartbeat import Sign
from aiperf.train.trainer_config import TrainerConf


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Place of one rank (training process): its host, its device, and its indices as in Horovod and torch."""

    rank: int
    host: int
    """Index of its host. 0 is the leading host, which has rank 0."""
    accelerator: int | None
    """Index of its device on its host. None for the CPU."""
    local_rank: int
    local_size: int
    cross_rank: int
    """Index among the ranks with the same local rank, one per host."""
    cross_size: int


def seats(devices: Sequence[Sequence[int | None]]) -> tuple[RankPlace, ...]:
    """Return the place of each rank: one rank per device, numbered host after host.

    `devices`: for each host, the index of each device on that host, or None for the CPU. Hosts may have different numbers.

    >>> [(seat.rank, seat.host, seat.local_rank, seat.cross_rank, seat.cross_size) for seat in seats([[0, 1], [0]])]
    [(0, 0, 0, 0, 2), (1, 0, 1, 0, 1), (2, 1, 0, 1, 2)]
    """
    places: list[RankPlace] = []
    for host, of_host in enumerate(devices):
        for local, accelerator in enumerate(of_host):
            hosts = [other for other, those in enumerate(devices) if len(those) > local]
            cross = hosts.index(host)
            places.append(RankPlace(len(places), host, accelerator, local, len(of_host), cross, len(hosts)))
    return tuple(places)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a worker's ranks on a host, for every start and any number of ranks."""

    conf: TrainerConf
    dataset: DataSetConf
    start_graph: str
    run_folder: Path
    cores: int
    worker: int = 0


@dataclass(frozen=True, slots=True)
class Setup:
    """First message to a rank: its settings for the rest of its life."""

    recipe: Recipe
    seat: RankPlace
    ranks: int
    cores: int
    """Its share of its worker's cores."""
    heartbeats: Path
    meeting: MeetingPlace

    @property
    def threads(self) -> int:
        return self.recipe.conf.threads or self.cores


@dataclass(frozen=True, slots=True)
class ExecuteOrder:
    order: Train
    taken: float
    """time.monotonic() when the order was taken."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Message from a rank when it can train. The same object reports the properties of the ranks to the owner of the group."""

    ranks: int
    device: str
    device_memory_bytes: int
    """Bytes that one rank may use."""
    collective: str
    family: str
    largest_batch: int
    """Largest batch, measured by rank 0 or by an earlier group on this host. 0 from the other ranks, and for a detector."""
    precision: str
    """Precision in which trials compute."""
    matmul_flops: float | None
    """Without an accelerator: FLOPS of this rank's fastest matrix product in that precision, with all ranks active. Else
    None."""
    memory_bytes_per_second: float | None
    """Without an accelerator: memory bandwidth of this rank, with all ranks active. Else None."""
    bus_bytes_per_second: float | None
    """Bus bandwidth of all ranks for the gradients of the starting network (`measure.all_reduce`). None for one rank."""
    transport: str | None = None
    """How NCCL connected rank 0 with the others (`collective.nccl_transport`). None if there is no NCCL, or if the user set
    variables of its log."""
    hosts: tuple[str, ...] = ()
    """To the group's owner if the ranks are on several hosts: their names, the leading one's first."""


@dataclass(frozen=True, slots=True)
class FailureReport:
    """Last message from a rank: the reason for its end."""

    reason: str
    messages: tuple[Message, ...] = ()
    """Messages to report before the attempt's end."""
    is_peer: bool = False
    """It ends because another rank is lost."""
    is_fixable: bool = False
    """The user has to fix something first. Another start would fail in the same way."""
    is_device: bool = False
    """Its accelerator failed."""
    is_final: bool = False
    """Another start would not help, and the user cannot fix anything during the run."""
    retry: bool = True
    """Another attempt may end differently."""
    cause: Cause = "machine"


@dataclass(frozen=True, slots=True)
class RankStatus:
    """State of a rank's process, as observed last on its host. Default values: not observed yet."""

    rank: int
    pid: int = 0
    sign: Sign | None = None
    has_ended: bool = False
    signal: signal.Signals | None = None
    """Signal that ended it. None if it runs or ended without a signal."""
    end_in_words: str = "ended"
    """End of the process, with the last lines of its log."""
    failed: FailureReport | None = None
    stopped_seconds: float = 0.0
    """Seconds since the first of consecutive polls that found it stopped (state T of proc(5)). 0 while it runs."""
    quiet_seconds: float = 0.0
