"""Where torch's ranks find each other: a file of their host, or, where they are on several hosts, a store that rank 0 keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StoreAt:
    """A torch.distributed.TCPStore, as one rank reaches it."""

    address: str
    port: int
    listening: int | None = None
    """Of rank 0, which keeps the store: the file descriptor of the socket that listens for it. None: another rank's."""


MeetingPlace = Path | StoreAt
"""A file of this start's own that all ranks can read and write, and that is not there yet; or a store."""
