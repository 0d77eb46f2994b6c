"""Server for the ranks on another host of a worker: it starts and watches them, and answers the leading host's polls.

No torch and no Ray here. `distant_host.py` calls these methods in any order and from any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Pipe

from aiperf.files import host_name
from aiperf.journal.messages import Message
from aiperf.system.control_groups import usable_processors
from aiperf.train.ranks.host_ranks import HostRanks, RankStart, Recipe
from aiperf.train.ranks.protocol import ExecuteOrder, FailureReport, RankStatus, Ready

ABANDONED_SECONDS = 30.0
"""Ranks are ended after this many seconds without a call. Above the leading host's limit for an answer
(`distant_host.SILENCE_SECONDS`), so it has given this host up by then."""


@dataclass(frozen=True, slots=True)
class HostProperties:
    name: str
    cores: int


@dataclass(frozen=True, slots=True)
class StartChanges:
    """Messages and states of a start's ranks since the last call."""

    messages: tuple[tuple[int, Ready | Message | FailureReport], ...]
    """Messages with their rank."""
    ranks: tuple[RankStatus, ...]
    """State of each rank. Empty before they are started."""
    host_messages: tuple[Message, ...] = ()
    """Messages of the host itself."""
    is_abandoned: bool = False


class HostRankServer:
    """Ranks of a worker on this host, controlled by its leading host. Thread-safe.

    `number` identifies a start of the ranks, and increases. Calls with an earlier number have no effect. Without a call for
    30 s, the ranks are killed.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._number = self._over = 0
        self._ranks: HostRanks | None = None
        self._last_request = time.monotonic()
        self._is_abandoned = False
        self._lock = threading.Lock()
        """Guards the ranks. Held while they are polled."""
        self._wake_here, self._wake_there = Pipe(duplex=False)
        # ranks die with the thread that starts them, so it is one that lives as long as this
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outpost")
        self._closed = threading.Event()
        self._guard = threading.Thread(target=self._look_for_leader, name="outpost-guard", daemon=True)
        self._guard.start()

    def hello(self) -> HostProperties:
        return HostProperties(host_name(), min(self._recipe.cores, usable_processors()))

    def start(self, number: int, start: RankStart) -> None:
        """End ranks of an earlier start before.

        Raise OSError if a process cannot be started, or this host lacks the address.
        """
        self._starter.submit(self._start, number, start).result()

    def look(self, number: int, seconds: float) -> StartChanges:
        """Wait up to `seconds` for the first message. Both are empty if the ranks are not started yet."""
        self._last_request = time.monotonic()
        with self._lock:
            if self._ranks is not None and self._number == number:
                messages = tuple(self._ranks.receive(seconds, [self._wake_here]))
                return StartChanges(messages, self._ranks.look(time.monotonic()), is_abandoned=self._is_abandoned)
        time.sleep(seconds)  # not started yet
        return StartChanges((), ())

    def send(self, number: int, do: ExecuteOrder) -> None:
        ranks = self._ranks
        if ranks is not None and self._number == number:
            ranks.send(do)

    def hang_up(self, number: int) -> None:
        self._with_ranks(number, HostRanks.hang_up)

    def kill(self, number: int) -> None:
        self._over = max(self._over, number)
        self._with_ranks(number, HostRanks.kill)

    def end(self, number: int) -> list[tuple[int, str]]:
        """Return (rank, text on its process) of each that cannot be ended within 30 s."""
        self._over = max(self._over, number)
        self._wake()
        with self._lock:
            if self._ranks is None or self._number > number:
                return []
            ranks, self._ranks = self._ranks, None
            return ranks.end()

    def close(self) -> None:
        self._closed.set()
        self.end(self._number)
        self._starter.shutdown()
        self._guard.join()

    def _start(self, number: int, start: RankStart) -> None:
        self.end(number - 1)
        with self._lock:
            if number <= self._over:
                return  # it was given up before this call arrived
            ranks = HostRanks(self._recipe, start)
            self._ranks, self._number, self._is_abandoned = ranks, number, False
            self._last_request = time.monotonic()
            ranks.start()

    def _with_ranks(self, number: int, act: Callable[[HostRanks], None]) -> None:
        self._wake()
        with self._lock:
            if self._ranks is not None and self._number == number:
                act(self._ranks)

    def _wake(self) -> None:
        with suppress(OSError):
            self._wake_there.send_bytes(b"")

    def _look_for_leader(self) -> None:
        while not self._closed.wait(1.0):
            if time.monotonic() - self._last_request > ABANDONED_SECONDS and not self._is_abandoned:
                with self._lock:
                    if self._ranks is not None:
                        self._is_abandoned = True
                        self._ranks.kill()
