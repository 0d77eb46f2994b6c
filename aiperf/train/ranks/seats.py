"""How the ranks of one worker are numbered over its hosts: host after host, as Horovod and torch number them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seat:
    """One rank's place."""

    rank: int
    host: int
    """Which of the worker's hosts; 0: the one that leads, where rank 0 is."""
    accelerator: int | None
    """Index of its device on its host; None: the processor."""
    local_rank: int
    """Which of its host's ranks."""
    local_size: int
    """How many ranks its host has."""
    cross_rank: int
    """Which of the ranks that have its local rank, one a host."""
    cross_size: int


def seats(devices: Sequence[Sequence[int | None]]) -> tuple[Seat, ...]:
    """A rank for each device of each host; hosts may have different numbers of them.

    >>> [(seat.rank, seat.host, seat.local_rank, seat.cross_rank, seat.cross_size) for seat in seats([[0, 1], [0]])]
    [(0, 0, 0, 0, 2), (1, 0, 1, 0, 1), (2, 1, 0, 1, 2)]
    """
    found: list[Seat] = []
    for host, of_host in enumerate(devices):
        for local, accelerator in enumerate(of_host):
            beside = [other for other, those in enumerate(devices) if len(those) > local]
            cross = beside.index(host)
            found.append(Seat(len(found), host, accelerator, local, len(of_host), cross, len(beside)))
    return tuple(found)
