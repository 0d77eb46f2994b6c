"""Mailbox for messages from workers to the driver, a Ray actor on the head node. A run ends if its mailbox dies."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
import ray
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.journal.messages import Message

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Message).decode

PATIENCE_SECONDS = 0.5
"""Maximum wait of a sender for the delivery of its last messages."""
ANSWER_SECONDS = 60.0
"""Maximum wait of the driver for an answer, which normally takes 2 ms."""


@ray.remote(num_cpus=0)
class Mailbox:
    """Ray actor that stores encoded messages (msgpack) for the driver, in the sequence of their arrival."""

    def __init__(self) -> None:
        self._messages: list[bytes] = []
        self._arrived = asyncio.Event()

    async def put(self, words: list[bytes]) -> None:
        """Add encoded messages."""
        self._messages += words
        self._arrived.set()

    async def take(self, timeout: float) -> list[bytes]:
        """Remove and return all encoded messages. Wait up to `timeout` seconds for the first. Empty if none arrived."""
        if not self._messages:
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), timeout)
        words, self._messages = self._messages, []
        return words


class Sender:
    """Ray starts an asynchronous actor's calls in no fixed sequence: each call is made after the previous one was answered."""

    def __init__(self, mailbox: ActorHandle[Any]) -> None:
        self._mailbox = mailbox
        self._unsent: list[bytes] = []
        self._under_way: ray.ObjectRef[None] | None = None

    @property
    def is_done(self) -> bool:
        """True if all messages are in the mailbox."""
        return not self._unsent and self._under_way is None

    def put(self, messages: list[Message]) -> None:
        """Send these messages, after earlier ones that are still unsent."""
        self._unsent += map(_encode, messages)
        if self._under_way is not None:
            if not ray.wait([self._under_way], timeout=PATIENCE_SECONDS)[0]:
                return
            ray.get(self._under_way)
            self._under_way = None
        if self._unsent:
            self._under_way, self._unsent = self._mailbox.put.remote(self._unsent), []

    def flush(self) -> None:
        """Wait, without limit, until all messages are in the mailbox."""
        while not self.is_done:
            self.put([])


def open_mailbox() -> Any:
    head = ray.get_runtime_context().get_node_id()
    return Mailbox.options(  # type: ignore[attr-defined]
        scheduling_strategy=NodeAffinitySchedulingStrategy(head, soft=False)
    ).remote()


def received(mailbox: Any, timeout: float) -> list[Message]:
    """Remove and return all messages in a mailbox. Wait up to `timeout` seconds for the first. Empty if none arrived."""
    return [_decode(message) for message in ray.get(mailbox.take.remote(timeout), timeout=timeout + ANSWER_SECONDS)]
