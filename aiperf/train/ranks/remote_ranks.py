"""Ranks on another host of a worker: the server there, and its handle on the leading host, which has rank 0.

No torch and no Ray here. The caller provides the transport: `Call` begins a call and returns its future. Calls may come in any
order and from any thread.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from typing import Any

from aiperf.files import host_name
from aiperf.journal.messages import Message
from aiperf.system.control_groups import usable_processors
from aiperf.train.heartbeat import HeartbeatFile
from aiperf.train.ranks.host_ranks import DEATH_SECONDS, HostRanks, RankStart
from aiperf.train.ranks.protocol import ExecuteOrder, FailureReport, RankStatus, Ready, Recipe

ABANDONED_SECONDS = 30.0
"""Ranks are ended after this many seconds without a call. Above the leading host's limit for an answer
(`SILENCE_SECONDS`), so it has given this host up by then."""


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
        """End earlier ranks first. Raise OSError if a process cannot be started, or this host lacks the address."""
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


SILENCE_SECONDS = 20.0
"""A host is given up after this many seconds without an answer. Ray reports a dead node after about 15 s, or earlier if its
connections break."""
FRESH_SECONDS = 3.0
"""Older observations of a host's ranks are not used to judge them."""
ANSWER_SECONDS = 10.0
"""Time for an answer to a call, in addition to the duration of the call itself."""

Call = Callable[..., "Future[Any]"]
"""call(method, *arguments): call a method of the host's `HostRankServer`."""


@dataclass(slots=True)
class _HostStart:
    number: int
    asked: float
    """Time at which the unanswered call was begun."""
    seen: float = 0.0
    """Begin of the last answered call. The known state is not older."""


@dataclass(slots=True)
class DistantHost:
    """Another host of a worker, for the worker's lifetime. Its methods return at once, except for `ended`."""

    name: str
    address: str
    accelerators: int
    cores: int
    call: Call
    look_seconds: float = 0.2
    """Time that the host waits for a message before it answers, in seconds."""
    lost: str | None = None
    """Reason for giving it up. None if it is not given up."""
    messages: list[Message] = field(default_factory=list)
    """Messages of the host itself, not of its ranks."""
    ranks: tuple[RankStatus, ...] = ()
    answered: Connection = field(init=False)
    """Readable when an answer has arrived."""
    _answer_pipe: Connection = field(init=False)
    _answers: queue.SimpleQueue[tuple[int, float, Future[Any]]] = field(default_factory=queue.SimpleQueue)
    _start: _HostStart | None = None

    def __post_init__(self) -> None:
        self.answered, self._answer_pipe = Pipe(duplex=False)

    def begin(self, number: int, start: RankStart) -> None:
        """`number`: of this start, increasing, by which late answers to earlier starts are ignored."""
        self.ranks = tuple(RankStatus(seat.rank) for seat in start.own)
        self._start = _HostStart(number, time.monotonic())
        self._fire("start", number, start)
        self._ask(time.monotonic())

    def take(self, heartbeats: HeartbeatFile, now: float) -> list[tuple[int, Ready | Message | FailureReport]]:
        """New messages as (rank, message). A failed call, ended ranks or 20 s without an answer set `lost`."""
        begun = self._start
        received: list[tuple[int, Ready | Message | FailureReport]] = []
        while begun is not None and self.lost is None:
            try:
                number, asked, future = self._answers.get_nowait()
            except queue.Empty:
                break
            if (error := future.exception()) is not None:
                if number == begun.number:
                    self._lose(f"is gone: {_in_words(error)}")
            elif number == begun.number and isinstance(sight := future.result(), StartChanges):
                begun.seen = asked
                self._take_over(sight, heartbeats, now)
                received += sight.messages
                self._ask(now)
        if begun is not None and self.lost is None and now - begun.asked > SILENCE_SECONDS:
            self._lose(f"has not answered for {now - begun.asked:.0f} s: it is cut off, or it hangs")
        return received

    def is_seen_since(self, moment: float) -> bool:
        """Return True if the state of the ranks was observed at or after `moment` (time.monotonic()), or the host is lost."""
        return self.lost is not None or (self._start is not None and self._start.seen >= moment)

    def send(self, do: ExecuteOrder) -> None:
        self._of_start("send", do)

    def hang_up(self) -> None:
        self._of_start("hang_up")

    def kill(self) -> None:
        self._of_start("kill")

    def end(self) -> Future[Any] | None:
        """Return the future that `ended` needs. None if the host has no ranks or is lost."""
        begun, self._start = self._start, None
        return None if begun is None or self.lost is not None else self._fire("end", begun.number)

    def ended(self, ending: Future[Any] | None, deadline: float) -> list[tuple[int, str]]:
        """(rank, process) of each that outlives `deadline` + 10 s for the answer. Without one `lost` is set."""
        if ending is None:
            return []
        try:
            left: list[tuple[int, str]] = ending.result(max(0.0, deadline - time.monotonic()) + ANSWER_SECONDS)
        except TimeoutError:
            self._lose(
                f"has not ended its ranks within {DEATH_SECONDS + ANSWER_SECONDS:.0f} s: it is cut off, or it hangs"
            )
            return []
        except Exception as error:  # noqa: BLE001  # the transport's own errors: their text is kept
            self._lose(f"is gone: {_in_words(error)}")
            return []
        return left

    def _take_over(self, sight: StartChanges, heartbeats: HeartbeatFile, now: float) -> None:
        self.messages += sight.host_messages
        if sight.is_abandoned:
            self._lose("was not asked for so long that it has ended its ranks")
        self.ranks = sight.ranks or self.ranks
        for status in sight.ranks:
            assert status.sign is not None
            heartbeats.copy(status.rank, status.sign, now)

    def _ask(self, now: float) -> None:
        assert self._start is not None
        self._start.asked = now
        self._fire("look", self._start.number, self.look_seconds)

    def _of_start(self, method: str, *arguments: object) -> None:
        if self._start is not None and self.lost is None:
            self._fire(method, self._start.number, *arguments)

    def _fire(self, method: str, number: int, *arguments: object) -> Future[Any]:
        now = time.monotonic()
        future = self.call(method, number, *arguments)

        def come(future: Future[Any]) -> None:
            self._answers.put((number, now, future))
            self._answer_pipe.send_bytes(b"")

        future.add_done_callback(come)
        return future

    def _lose(self, why: str) -> None:
        self.lost = f"host {self.name} ({self.address}) {why}"


def _in_words(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
