"""Numbers of one worker's ranks over its hosts: host after host, as in Horovod and torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Place of one rank."""

    rank: int
    host: int
    """Index of its host. 0 is the leading host, which has rank 0."""
    accelerator: int | None
    """Index of its device on its host. None for the CPU."""
    local_rank: int
    """Index among its host's ranks."""
    local_size: int
    """Number of ranks on its host."""
    cross_rank: int
    """Index among the ranks with the same local rank, one per host."""
    cross_size: int


def seats(devices: Sequence[Sequence[int | None]]) -> tuple[RankPlace, ...]:
    """Return a seat for each device of each host. Hosts may have different numbers of devices.

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
