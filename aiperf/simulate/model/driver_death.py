"""How a driver goes in the middle of its work: what is left of an append, and for how long nobody is there."""

from __future__ import annotations

from dataclasses import dataclass


class DriverKilled(Exception):
    """The driver's process is gone, between two instructions; it is thrown away, and the run resumed after a while."""

    def __init__(self, down_seconds: float) -> None:
        super().__init__("the driver was killed")
        self.down_seconds = down_seconds


@dataclass(frozen=True, slots=True)
class Death:
    """How an append goes wrong."""

    whole_lines: int
    """Lines that are written before it."""
    torn_share: float
    """Of the next line."""
    down_seconds: float
    """How long it takes until someone takes the run up again."""
    is_disk_full: bool = False
    """The driver is told, instead of being killed."""
