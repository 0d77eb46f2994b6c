"""Exchange between the ranks of one worker: by Horovod, by torch's DistributedDataParallel, or none, and where they meet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StoreAt:
    """Address of a torch.distributed.TCPStore (key-value server of rank 0), as one rank reaches it."""

    address: str
    port: int
    listening: int | None = None
    """File descriptor of the listening socket on rank 0, which serves the store. None on other ranks."""


MeetingPlace = Path | StoreAt
"""A file that all ranks can read and write, which must not exist before this start, or a store."""
