"""What searchers learn, on its way from the driver to the generators: encoded once, however many there are to be told.

Each generator is told what it does not know yet. Those that are nearly up to date get the few newest packets with their order;
one that has just been started gets references to blocks in Ray's object store, which are put there once for all of them.
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
"""Packets of so many bytes together become a block of the object store."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a generator is told with an order."""

    first: int
    """Number of the first packet in it, blocks before loose ones; the generator may know some of them."""
    blocks: tuple[Any, ...]
    """References to lists of packets."""
    loose: tuple[bytes, ...]
    """Packets: what was told at once, encoded."""


class News:
    """All that was ever told, in its order, as packets that are counted from 0."""

    def __init__(self, put: Callable[[list[bytes]], Any] = ray.put) -> None:
        """`put`: into the object store, which gives a reference."""
        self._put = put
        self._blocks: list[Any] = []
        self._begins: list[int] = []
        """Of each block, the number of its first packet."""
        self._recent: list[bytes] = []
        """Packets that are held here too: those of the last block, and those that are in none yet."""
        self._recent_from = 0
        self._open_from = 0
        """The first packet that is in no block yet."""
        self._open_bytes = 0

    @property
    def count(self) -> int:
        """How many packets there are."""
        return self._recent_from + len(self._recent)

    def tell(self, observations: Sequence[Observation]) -> None:
        """One more packet."""
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

    def since(self, known: int) -> Parcel:
        """What somebody lacks who knows so many packets."""
        if known >= self._recent_from:
            return Parcel(known, (), tuple(self._recent[known - self._recent_from :]))
        block = bisect_right(self._begins, known) - 1
        loose = self._recent[self._open_from - self._recent_from :]
        return Parcel(self._begins[block], tuple(self._blocks[block:]), tuple(loose))


class Heard:
    """A generator's end: takes each packet once."""

    def __init__(self, get: Callable[[list[Any]], list[list[bytes]]] = ray.get) -> None:
        """`get`: what the references stand for."""
        self._get = get
        self._known = 0

    def take(self, parcel: Parcel) -> list[Observation]:
        """What of it is new."""
        packets = [packet for block in self._get(list(parcel.blocks)) for packet in block] if parcel.blocks else []
        packets += parcel.loose
        assert self._known >= parcel.first, "what a generator was told before has been heard by it"
        new = packets[self._known - parcel.first :]
        self._known += len(new)
        return [observation for packet in new for observation in pickle.loads(packet)]
