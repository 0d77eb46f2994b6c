"""Another host of a worker: it starts and watches the worker's ranks there, and tells the leading host, which asks for it.

No torch and no Ray here: who calls these methods from afar, `distant_host.py` says through whatever carries the calls. They may
come in any order and from any thread. If nobody asks for long, the leading host is gone, and so are the ranks.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Pipe

from aiperf.journal.messages import Word
from aiperf.system.control_groups import usable_processors
from aiperf.train.ranks.heartbeat import Sign
from aiperf.train.ranks.host_ranks import HostRanks, Recipe, Start
from aiperf.train.ranks.protocol import Do, Failed, Ready

ABANDONED_SECONDS = 30.0
"""Unasked for so long, ranks are ended. Above what the leading host waits for an answer (`distant_host.SILENCE_SECONDS`): it
has given this host up by then."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What the leading host must know before the first start."""

    name: str
    cores: int
    """That this process may use."""


@dataclass(frozen=True, slots=True)
class SeenRank:
    """A rank as its host sees it."""

    rank: int
    pid: int
    sign: Sign
    has_ended: bool
    signal: int | None
    """What ended it."""
    end_in_words: str
    stopped_seconds: float
    quiet_seconds: float


@dataclass(frozen=True, slots=True)
class Sight:
    """What there is to tell of a start since it was last asked for."""

    messages: tuple[tuple[int, Ready | Word | Failed], ...]
    """By rank."""
    ranks: tuple[SeenRank, ...]
    """Empty: they are not started yet."""
    words: tuple[Word, ...] = ()
    """Of the host itself."""
    is_abandoned: bool = False


class Outpost:
    """See the head of this file. `number`: of the start; what comes of an earlier one is without effect."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._number = self._over = 0
        self._ranks: HostRanks | None = None
        self._asked = time.monotonic()
        self._is_abandoned = False
        self._lock = threading.Lock()
        """Over the ranks: held while they are looked at."""
        self._wake_here, self._wake_there = Pipe(duplex=False)
        # ranks die with the thread that starts them, so it is one that lives as long as this
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outpost")
        self._closed = threading.Event()
        self._guard = threading.Thread(target=self._look_for_leader, name="outpost-guard", daemon=True)
        self._guard.start()

    def hello(self) -> Hello:
        """This host's name, and what it has."""
        return Hello(socket.gethostname(), min(self._recipe.cores, usable_processors()))

    def start(self, number: int, start: Start) -> None:
        """Starts the ranks of this host. Returns at once; a failure is raised."""
        self._starter.submit(self._start, number, start).result()

    def look(self, number: int, seconds: float) -> Sight:
        """What has happened, waiting so long at most for the first message."""
        self._asked = time.monotonic()
        with self._lock:
            if self._ranks is not None and self._number == number:
                return self._seen(self._ranks, tuple(self._ranks.hear(seconds, [self._wake_here])))
        time.sleep(seconds)  # not there yet
        return Sight((), ())

    def tell(self, number: int, do: Do) -> None:
        """Hands an order down."""
        ranks = self._ranks
        if ranks is not None and self._number == number:
            ranks.tell(do)

    def hang_up(self, number: int) -> None:
        """The ranks are to end by themselves."""
        self._with_ranks(number, HostRanks.hang_up)

    def kill(self, number: int) -> None:
        """They are to end; does not wait for it."""
        self._over = max(self._over, number)
        self._with_ranks(number, HostRanks.kill)

    def end(self, number: int) -> list[tuple[int, str]]:
        """Ends them, and waits for it within limits; gives those that cannot be ended, as `HostRanks.end` does."""
        self._over = max(self._over, number)
        self._wake()
        with self._lock:
            if self._ranks is None or self._number > number:
                return []
            ranks, self._ranks = self._ranks, None
            return ranks.end()

    def close(self) -> None:
        """Ends everything."""
        self._closed.set()
        self.end(self._number)
        self._starter.shutdown()
        self._guard.join()

    def _start(self, number: int, start: Start) -> None:
        self.end(number - 1)
        with self._lock:
            if number <= self._over:
                return  # it was given up before this call came
            ranks = HostRanks(self._recipe, start)
            self._ranks, self._number, self._is_abandoned = ranks, number, False
            self._asked = time.monotonic()
            ranks.start()

    def _seen(self, ranks: HostRanks, messages: tuple[tuple[int, Ready | Word | Failed], ...]) -> Sight:
        now = time.monotonic()
        ranks.look(now)
        seen = []
        for process, progress in zip(ranks.processes, ranks.progress, strict=True):
            has_ended = process.has_ended()
            seen.append(
                SeenRank(
                    rank=process.rank,
                    pid=process.pid,
                    sign=ranks.heartbeats.sign(process.rank, now),
                    has_ended=has_ended,
                    signal=None if process.signal is None else int(process.signal),
                    end_in_words=process.end_in_words() if has_ended else "",
                    stopped_seconds=process.stopped_for(now),
                    quiet_seconds=progress.quiet_for(now),
                )
            )
        return Sight(messages, tuple(seen), is_abandoned=self._is_abandoned)

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
            if time.monotonic() - self._asked > ABANDONED_SECONDS and not self._is_abandoned:
                with self._lock:
                    if self._ranks is not None:
                        self._is_abandoned = True
                        self._ranks.kill()
