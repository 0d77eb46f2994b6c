"""Where workers leave their words for the driver: an actor on the head node, so that neither side waits for the other."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import ray
from ray.actor import ActorHandle

from aiperf.messages import Word

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Word).decode


@ray.remote(num_cpus=0)
class Mailbox:
    """Holds encoded words, in the order of their arrival."""

    def __init__(self) -> None:
        self._words: list[bytes] = []
        self._arrived = asyncio.Event()

    async def put(self, words: list[bytes]) -> None:
        """Leaves words."""
        self._words += words
        self._arrived.set()

    async def take(self, timeout: float) -> list[bytes]:
        """Takes all words out; waits up to `timeout` seconds for the first."""
        if not self._words:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), timeout)
            except TimeoutError:
                return []
        words, self._words = self._words, []
        return words


class Sender:
    """Leaves one worker's words for the driver, in their order.

    Ray begins the calls of an asynchronous actor in no order, so one is made only when the one before it has been taken. What
    comes to be said meanwhile can go with the next.
    """

    def __init__(self, mailbox: ActorHandle[Any]) -> None:
        self._mailbox = mailbox
        self._under_way: ray.ObjectRef[None] | None = None

    def put(self, words: list[Word]) -> None:
        """Leaves words; waits only while earlier ones are still on their way. Raises RayError when the mailbox is gone."""
        self.flush()
        self._under_way = self._mailbox.put.remote([_encode(word) for word in words])

    def flush(self) -> None:
        """Waits until all words lie in the mailbox. Raises RayError when it is gone."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            ray.get(under_way)


def opened(words: list[bytes]) -> list[Word]:
    """Words as they were left."""
    return [_decode(word) for word in words]
