"""What a group's supervisor and its ranks say to each other, over a pipe of their own. No torch here.

Both ends are this release's own code in processes of the same user, so the pipe carries pickles; none is ever written to disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aiperf.data.dataset_config import DataSetConf
from aiperf.journal.events import Cause
from aiperf.journal.messages import Train, Word
from aiperf.train.meeting_place import MeetingPlace
from aiperf.train.trainer_config import TrainerConf


@dataclass(frozen=True, slots=True)
class Setup:
    """To a rank, first: what it is for the rest of its life."""

    conf: TrainerConf
    dataset: DataSetConf
    start_graph: str
    checkpoints: Path
    ceilings: Path
    """Where the groups of the run leave the largest batches they measured."""
    rank: int
    ranks: int
    local_ranks: int
    """How many of them are on its host."""
    accelerator: int | None
    """Index of its CUDA device; None: the CPU."""
    threads: int
    """Of its arithmetic."""
    cores: int
    """Its share of its worker's."""
    heartbeats: Path
    meeting: MeetingPlace
    """Where ranks joined by torch find each other; Horovod's find theirs in the environment."""


@dataclass(frozen=True, slots=True)
class Do:
    """To all ranks: carry out an order."""

    order: Train
    taken: float
    """time.monotonic() when the order was taken."""


@dataclass(frozen=True, slots=True)
class Ready:
    """From a rank: it can take orders. And to the group's owner: what it has."""

    ranks: int
    device: str
    """The accelerator's model, or the processor's."""
    device_memory_bytes: int
    """What one rank may use."""
    collective: str
    family: str
    """The starting graph's fingerprint."""
    largest_batch: int
    """Measured by rank 0 or a group before it on this host; 0 from the other ranks."""
    precision: str
    """What trials compute in."""
    matmul_flops: float | None
    """Without an accelerator: FLOPS of this rank's fastest matrix product in that precision, all ranks at once."""
    hosts: tuple[str, ...] = ()
    """To the group's owner, where the ranks are on several hosts: their names, the leading one's first."""


@dataclass(frozen=True, slots=True)
class Failed:
    """From a rank, last: why it ends."""

    reason: str
    words: tuple[Word, ...] = ()
    """To be said before the attempt's end."""
    is_peer: bool = False
    """It ends because another rank is gone."""
    is_fixable: bool = False
    """The user has to fix something first: starting again would fail again."""
    is_device: bool = False
    """Its accelerator is at fault."""
    is_final: bool = False
    """Starting again would not help, and there is nothing that the user could fix during the run."""
    retry: bool = True
    """Whether another attempt may end differently."""
    cause: Cause = "machine"
    """Whose failure it is."""
