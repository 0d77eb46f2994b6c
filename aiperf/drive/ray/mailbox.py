"""Where workers leave their words for the driver: an actor on the head node, so that neither side waits for the other.

No word is lost with the mailbox: Ray starts another in its place, and each sender leaves again all that the driver has not said
it read. The driver takes each word once, in the order in which its sender said it.
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
"""A sender's word, encoded, and its number: from 1, in the order in which they were said."""
PATIENCE_SECONDS = 0.5
"""How long a sender waits for its last words to arrive before it goes on with what else it has to do."""
ANSWER_SECONDS = 0.5
"""An answer takes 2 ms; the driver goes on without one that takes so long."""
STOPPED_SECONDS = 10.0
"""A mailbox that is stopped and silent for so long is replaced."""
SILENT_SECONDS = 60.0
"""One that is silent for so long is replaced, whatever it does."""


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Mailbox:
    """Holds encoded words, in the order of their arrival."""

    def __init__(self) -> None:
        self._words: list[tuple[str, int, bytes]] = []
        self._last: dict[str, int] = {}
        """The number of the last word of each sender."""
        self._read: dict[str, int] = {}
        """The same, of those that the driver has read."""
        self._arrived = asyncio.Event()

    async def put(self, sender: str, words: list[Numbered]) -> int:
        """Leaves what is new of these; gives the number of the sender's last word that the driver has read."""
        for number, word in words:
            if number > self._last.get(sender, 0):
                self._words.append((sender, number, word))
                self._last[sender] = number
                self._arrived.set()
        return self._read.get(sender, 0)

    async def take(self, timeout: float, read: dict[str, int]) -> tuple[int, list[tuple[str, int, bytes]]]:
        """Takes all words out; waits up to `timeout` seconds for the first. `read`: what of earlier ones has arrived.

        Gives this process's id with them.
        """
        self._read |= read
        if not self._words:
            self._arrived.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), timeout)
        words, self._words = self._words, []
        return os.getpid(), words


class Sender:
    """Leaves one worker's words for the driver, in their order, until the driver has read them.

    Ray begins the calls of an asynchronous actor in no order, so one is made only when the one before it has been answered.
    """

    def __init__(self, mailbox: ActorHandle[Any]) -> None:
        self._mailbox = mailbox
        self._name = secrets.token_hex(8)
        self._said = self._sent = self._left = 0
        """Numbers of the last word that was said, sent on its way, and left in the mailbox."""
        self._unread: deque[Numbered] = deque()
        self._under_way: ray.ObjectRef[int] | None = None

    def put(self, words: list[Word]) -> None:
        """Leaves words, and those again that may have been lost; with none, only those. To be called now and then until
        `is_read`. Waits a moment at most while earlier ones are still on their way."""
        for word in words:
            self._said += 1
            self._unread.append((self._said, _encode(word)))
        if self._under_way is not None:
            arrived, _ = ray.wait([self._under_way], timeout=PATIENCE_SECONDS)
            if not arrived:
                return
            read = ray.get(self._under_way)
            self._under_way, self._left = None, self._sent
            while self._unread and self._unread[0][0] <= read:
                self._unread.popleft()
        if self._unread:
            self._sent = self._said
            self._under_way = self._mailbox.put.remote(self._name, list(self._unread))

    def flush(self) -> None:
        """Waits until all words lie in the mailbox."""
        while self._said > self._left:
            self.put([])

    @property
    def is_read(self) -> bool:
        """Whether the driver is known to have read everything."""
        return not self._unread


class Post:
    """The driver's end: its mailbox, which is replaced when it dies or is stopped, and what was read of each sender."""

    def __init__(self) -> None:
        head = ray.get_runtime_context().get_node_id()
        # its stub (Ray 2.60) takes every method of an actor for one that never returns
        self.mailbox: Any = Mailbox.options(  # type: ignore[attr-defined]
            scheduling_strategy=NodeAffinitySchedulingStrategy(head, soft=False)
        ).remote()
        self._read: dict[str, int] = {}
        self._read_since: dict[str, int] = {}
        """Of each sender the last word that was read, where the mailbox has not been told so yet."""
        self._taking: ray.ObjectRef[Any] | None = None
        self._asked = 0.0
        self.pid: int | None = None
        """The process of the mailbox that answered last, on this host."""

    def take(self, timeout: float) -> list[Word] | None:
        """The words that have come, each once; waits up to `timeout` seconds for the first. None where no answer comes: what
        has been left is not known."""
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
            self.pid = None  # the next mailbox says which process it is
            self._asked = time.monotonic()
