"""History updates from the driver to the generators. Each is encoded once for all generators.

Each generator receives only the packets that it lacks. A generator that is nearly up to date gets the newest packets
with its order. A new generator gets references to blocks in Ray's object store, which exist once for all generators.
"""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ray

from searchers.history import Observation

BLOCK_BYTES = 256 * 1024
"""Size of the packets that form a block of the object store."""


@dataclass(frozen=True, slots=True)
class HistoryUpdate:
    """History update that is sent with an order."""

    first: int
    """Number of the first packet, in the first block or else loose. The generator may already have some of the
    packets."""
    blocks: tuple[Any, ...]
    """References to lists of packets."""
    loose: tuple[bytes, ...]
    """Encoded packets that are in no block."""


class UpdateLog:
    """All observations in order, as packets numbered from 0."""

    def __init__(self, put: Callable[[list[bytes]], Any] = ray.put) -> None:
        """`put`: stores a block and returns a reference. Default: Ray's object store."""
        self._put = put
        self._blocks: list[Any] = []
        self._begins: list[int] = []
        """Number of the first packet of each block."""
        self._recent: list[bytes] = []
        """Packets kept in memory: those of the last block, and those in no block yet."""
        self._recent_from = 0
        self._open_from = 0
        """The first packet that is in no block yet."""
        self._open_bytes = 0

    @property
    def count(self) -> int:
        """Number of packets."""
        return self._recent_from + len(self._recent)

    def tell(self, observations: Sequence[Observation]) -> None:
        """Add one packet."""
        packet = pickle.dumps(list(observations), protocol=pickle.HIGHEST_PROTOCOL)
        self._recent.append(packet)
        self._open_bytes += len(packet)
        if self._open_bytes >= BLOCK_BYTES:
            self._close_block()

    def _close_block(self) -> None:
        block = self._recent[self._open_from - self._recent_from :]
        self._blocks.append(self._put(block))
        self._begins.append(self._open_from)
        self._recent, self._recent_from = list(block), self._open_from
        self._open_from, self._open_bytes = self.count, 0

    def since(self, known: int) -> HistoryUpdate:
        """Return the packets after the first `known` ones."""
        if known >= self._recent_from:
            return HistoryUpdate(known, (), tuple(self._recent[known - self._recent_from :]))
        block = bisect_right(self._begins, known) - 1
        loose = self._recent[self._open_from - self._recent_from :]
        return HistoryUpdate(self._begins[block], tuple(self._blocks[block:]), tuple(loose))


class UpdateReceiver:
    """Receiver in a generator. Takes each packet once."""

    def __init__(self, get: Callable[[list[Any]], list[list[bytes]]] = ray.get) -> None:
        """`get`: resolves references."""
        self._get = get
        self._known = 0

    def take(self, parcel: HistoryUpdate) -> list[Observation]:
        """Return the new observations."""
        packets = [packet for block in self._get(list(parcel.blocks)) for packet in block] if parcel.blocks else []
        packets += parcel.loose
        assert self._known >= parcel.first, "a generator has received all earlier packets"
        new = packets[self._known - parcel.first :]
        self._known += len(new)
        return [observation for packet in new for observation in pickle.loads(packet)]
