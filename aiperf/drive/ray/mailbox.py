"""Mailbox for messages from workers to the driver: an actor on the head node, so that neither side waits for the other.

No message is lost with the mailbox. Ray restarts it, and each sender sends again all messages that the driver has not
confirmed. The driver takes each message once, in the order of its sender.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import time
from collections import deque
from typing import Any

import msgspec
import ray
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.journal.messages import Word
from aiperf.system.processes import is_stopped

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Word).decode

Numbered = tuple[int, bytes]
"""Number and encoded message of a sender. Numbers start at 1."""
PATIENCE_SECONDS = 0.5
"""Maximum wait of a sender for the delivery of its last messages."""
ANSWER_SECONDS = 0.5
"""Maximum wait of the driver for an answer, which normally takes 2 ms."""
STOPPED_SECONDS = 10.0
"""A stopped mailbox is replaced after this time without an answer."""
SILENT_SECONDS = 60.0
"""Any mailbox is replaced after this time without an answer."""


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Mailbox:
    """Store of encoded messages, in the order of their arrival."""

    def __init__(self) -> None:
        self._words: list[tuple[str, int, bytes]] = []
        self._last: dict[str, int] = {}
        """Number of the last message, by sender."""
        self._read: dict[str, int] = {}
        """Number of the last message that the driver has read, by sender."""
        self._arrived = asyncio.Event()

    async def put(self, sender: str, words: list[Numbered]) -> int:
        """Store the new ones among `words`. Return the number of the sender's last message that the driver has read."""
        for number, word in words:
            if number > self._last.get(sender, 0):
                self._words.append((sender, number, word))
                self._last[sender] = number
                self._arrived.set()
        return self._read.get(sender, 0)

    async def take(self, timeout: float, read: dict[str, int]) -> tuple[int, list[tuple[str, int, bytes]]]:
        """Remove and return all messages, with this process's id. Wait up to `timeout` seconds for the first.

        `read`: numbers of the last messages that the driver has read, by sender.
        """
        self._read |= read
        if not self._words:
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), timeout)
        words, self._words = self._words, []
        return os.getpid(), words


class Sender:
    """Sender of one worker's messages. It keeps each message until the driver has read it.

    Ray starts the calls of an asynchronous actor in no fixed order. So a call is made only after the previous one has
    been answered.
    """

    def __init__(self, mailbox: ActorHandle[Any]) -> None:
        self._mailbox = mailbox
        self._name = secrets.token_hex(8)
        self._written = self._sent = self._left = 0
        """Numbers of the last message that was added, sent, and stored in the mailbox."""
        self._unread: deque[Numbered] = deque()
        self._under_way: ray.ObjectRef[int] | None = None

    def put(self, words: list[Word]) -> None:
        """Send messages, together with earlier ones that may be lost.

        Call it repeatedly, if needed with none, until `is_read`. Waits at most PATIENCE_SECONDS for the previous call.
        """
        for word in words:
            self._written += 1
            self._unread.append((self._written, _encode(word)))
        if self._under_way is not None:
            arrived, _ = ray.wait([self._under_way], timeout=PATIENCE_SECONDS)
            if not arrived:
                return
            read = ray.get(self._under_way)
            self._under_way, self._left = None, self._sent
            while self._unread and self._unread[0][0] <= read:
                self._unread.popleft()
        if self._unread:
            self._sent = self._written
            self._under_way = self._mailbox.put.remote(self._name, list(self._unread))

    def flush(self) -> None:
        """Wait until all messages are in the mailbox."""
        while self._written > self._left:
            self.put([])

    @property
    def is_read(self) -> bool:
        """Return whether the driver has confirmed all messages."""
        return not self._unread


class MailboxOwner:
    """Driver's end of the mailbox.

    It replaces a mailbox that has died or is stopped, and remembers the last message of each sender.
    """

    def __init__(self) -> None:
        head = ray.get_runtime_context().get_node_id()
        # its stub (Ray 2.60) takes every method of an actor for one that never returns
        self.mailbox: Any = Mailbox.options(  # type: ignore[attr-defined]
            scheduling_strategy=NodeAffinitySchedulingStrategy(head, soft=False)
        ).remote()
        self._read: dict[str, int] = {}
        self._read_since: dict[str, int] = {}
        """Numbers of read messages that the mailbox has not been informed of yet, by sender."""
        self._taking: ray.ObjectRef[Any] | None = None
        self._asked = 0.0
        self.pid: int | None = None
        """Process of the mailbox that answered last, on this host."""

    def take(self, timeout: float) -> list[Word] | None:
        """Return the messages that have arrived, each once.

        Wait up to `timeout` seconds for the first. None if the mailbox does not answer.
        """
        if self._taking is None:
            self._taking = self.mailbox.take.remote(timeout, self._read_since)
            self._read_since = {}
            self._asked = time.monotonic() + timeout
        arrived, _ = ray.wait([self._taking], timeout=timeout + ANSWER_SECONDS)
        if not arrived:
            self._end_silent_one()
            return None
        taking, self._taking = self._taking, None
        self.pid, letters = ray.get(taking)
        words = []
        for sender, number, word in letters:
            if number > self._read.get(sender, 0):
                self._read[sender] = self._read_since[sender] = number
                words.append(_decode(word))
        return words

    def _end_silent_one(self) -> None:
        silent = time.monotonic() - self._asked
        if self.pid is not None and silent > (STOPPED_SECONDS if is_stopped(self.pid) else SILENT_SECONDS):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.pid = None  # the next mailbox reports its own
            self._asked = time.monotonic()
