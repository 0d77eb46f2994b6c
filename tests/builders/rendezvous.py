"""Environment of Horovod's ranks on one host."""

from __future__ import annotations

from aiperf.train.ranks.protocol import RankPlace
from aiperf.train.ranks.rendezvous import horovod_environment


def on_one_host(rank: int, ranks: int, port: int) -> dict[str, str]:
    """Return the environment of a rank whose rendezvous listens on a port of 127.0.0.1."""
    place = RankPlace(rank, 0, None, local_rank=rank, local_size=ranks, cross_rank=0, cross_size=1)
    return horovod_environment(place, ranks, "127.0.0.1", port, "lo", "localhost")
