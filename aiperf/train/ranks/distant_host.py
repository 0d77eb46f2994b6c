"""Handle of another host of a worker on the leading host, which has rank 0: start, polling and end of its ranks.

The caller provides the transport: `Call` begins a call and returns its future. All code but the arrival of answers runs in
the thread of the group's supervisor.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from typing import Any

from aiperf.journal.messages import Message
from aiperf.train.heartbeat import HeartbeatFile
from aiperf.train.ranks.host_ranks import DEATH_SECONDS, RankStart
from aiperf.train.ranks.protocol import ExecuteOrder, FailureReport, RankStatus, Ready
from aiperf.train.ranks.remote_ranks import StartChanges

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
        """Return the messages that have arrived as (rank, message), and update the ranks' lines in `heartbeats`.

        `lost` is set if a call failed, if the host has ended its ranks by itself, or if it has not answered for 20 s.
        """
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
        """Return (rank, text on its process) of each that cannot be ended by `deadline`, with 10 s more for the answer.

        If the call fails or takes longer, `lost` is set and the list is empty.
        """
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
