"""A worker's ranks on two hosts that are one: the other's part runs in this process, and calls reach it through threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiperf.train.ranks.group import RankGroup
from aiperf.train.ranks.protocol import Recipe
from aiperf.train.ranks.remote_ranks import DistantHost, HostRankServer
from aiperf.train.trainer_config import TrainerConf
from morphism import Graph, encode
from tests.builders.order import IMAGES

LEADER, OTHER = "127.0.0.11", "127.0.0.1"
"""Connections from this machine to any address of its loopback come from 127.0.0.1."""


class Wire:
    """Transport of calls to the other host. It can be cut."""

    def __init__(self, outpost: HostRankServer) -> None:
        self.outpost = outpost
        self.is_cut = False
        self._threads = ThreadPoolExecutor(max_workers=8)

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """As Ray's: it returns at once."""
        if self.is_cut:
            return Future()
        return self._threads.submit(getattr(self.outpost, method), *arguments)

    def close(self) -> None:
        """Ends the other host's part."""
        self.outpost.close()
        self._threads.shutdown()


@contextmanager
def spanning_group(conf: TrainerConf, folder: Path, start: Graph) -> Iterator[tuple[RankGroup, Wire]]:
    """Not started yet."""
    wire = Wire(HostRankServer(Recipe(conf, IMAGES, encode(start), folder, 1)))
    there = DistantHost("elsewhere", OTHER, accelerators=0, cores=1, call=wire.call)
    group = RankGroup(Recipe(conf, IMAGES, encode(start), folder, 1), accelerators=0, address=LEADER, others=[there])
    try:
        yield group, wire
    finally:
        group.close()
        wire.close()
