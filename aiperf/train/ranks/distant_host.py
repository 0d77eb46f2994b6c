"""Another host of a worker as the leading one sees it: asked again and again, and given up when it does not answer.

What carries the calls is the caller's: `Call` begins one and gives its future. Everything here but the arrival of answers
happens in the thread of the group's supervisor.
"""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from typing import Any

from aiperf.journal.messages import Word
from aiperf.train.ranks.heartbeat import HeartbeatFile
from aiperf.train.ranks.host_ranks import DEATH_SECONDS, Start
from aiperf.train.ranks.outpost import SeenRank, Sight
from aiperf.train.ranks.protocol import Do, Failed, Ready

SILENCE_SECONDS = 20.0
"""A host that has not answered for so long is given up. Ray's own word that a node is dead comes after 15 s or so, and sooner
where its connections break."""
FRESH_SECONDS = 3.0
"""What is older says nothing of what a host's ranks are at now: nobody is judged by it."""
ANSWER_SECONDS = 10.0
"""For an answer to a call besides what it itself may take."""

Call = Callable[..., "Future[Any]"]
"""call(method, *arguments): a method of the host's `Outpost`."""


@dataclass(slots=True)
class DistantRank:
    """See `any_rank.AnyRank`: as of the last answer. It is its own `process_progress.AnyProgress`."""

    rank: int
    failed: Failed | None = None
    signal: signal.Signals | None = None
    seen: SeenRank | None = None

    @property
    def pid(self) -> int:
        return 0 if self.seen is None else self.seen.pid

    def has_ended(self) -> bool:
        return self.seen is not None and self.seen.has_ended

    def end_in_words(self) -> str:
        return self.seen.end_in_words if self.seen is not None else "ended"

    def stopped_for(self, now: float) -> float:
        return self.seen.stopped_seconds if self.seen is not None else 0.0

    def quiet_for(self, now: float) -> float:
        return self.seen.quiet_seconds if self.seen is not None else 0.0


@dataclass(slots=True)
class _Begun:
    """A start, as far as this host knows of it."""

    number: int
    ranks: dict[int, DistantRank]
    asked: float
    """When the call was begun that is not answered yet."""
    seen: float = 0.0
    """When the last call that was answered had been begun: what is known is not older."""


@dataclass(slots=True)
class DistantHost:
    """One a host, for as long as its worker lives."""

    name: str
    address: str
    accelerators: int
    cores: int
    """Of the worker's, there."""
    call: Call
    look_seconds: float = 0.2
    """How long it waits for something to tell before it answers."""
    lost: str | None = None
    """Why it is given up."""
    words: list[Word] = field(default_factory=list)
    """What it has to say besides its ranks' words."""
    news: Connection = field(init=False)
    """Has something to read when an answer has come."""
    _told: Connection = field(init=False)
    _came: queue.SimpleQueue[tuple[int, float, Future[Any]]] = field(default_factory=queue.SimpleQueue)
    _begun: _Begun | None = None

    def __post_init__(self) -> None:
        self.news, self._told = Pipe(duplex=False)

    def begin(self, number: int, start: Start) -> list[DistantRank]:
        """Has its ranks of a start started; they are told of as they are seen."""
        ranks = [DistantRank(seat.rank) for seat in start.own]
        self._begun = _Begun(number, {rank.rank: rank for rank in ranks}, time.monotonic())
        self._fire("start", number, start)
        self._ask(time.monotonic())
        return ranks

    def take(self, heartbeats: HeartbeatFile, now: float) -> list[tuple[int, Ready | Word | Failed]]:
        """What its ranks have sent; their lines in `heartbeats` are as new as can be then."""
        begun = self._begun
        heard: list[tuple[int, Ready | Word | Failed]] = []
        while begun is not None and self.lost is None:
            try:
                number, asked, future = self._came.get_nowait()
            except queue.Empty:
                break
            if (error := future.exception()) is not None:
                if number == begun.number:
                    self._lose(f"is gone: {_in_words(error)}")
            elif number == begun.number and isinstance(sight := future.result(), Sight):
                begun.seen = asked
                heard += self._taken(begun, sight, heartbeats, now)
                self._ask(now)
        if begun is not None and self.lost is None and now - begun.asked > SILENCE_SECONDS:
            self._lose(f"has not answered for {now - begun.asked:.0f} s: it is cut off, or it hangs")
        return heard

    def is_seen_since(self, moment: float) -> bool:
        """Whether what is known of its ranks is not older, or never will be newer."""
        return self.lost is not None or (self._begun is not None and self._begun.seen >= moment)

    def tell(self, do: Do) -> None:
        """Hands an order down to its ranks."""
        self._of_start("tell", do)

    def hang_up(self) -> None:
        """Its ranks are to end by themselves."""
        self._of_start("hang_up")

    def kill(self) -> None:
        """They are to end, whatever they do."""
        self._of_start("kill")

    def end(self) -> Future[Any] | None:
        """They are to end, which is waited for by `ended`."""
        begun, self._begun = self._begun, None
        return None if begun is None or self.lost is not None else self._fire("end", begun.number)

    def ended(self, ending: Future[Any] | None, deadline: float) -> list[tuple[int, str]]:
        """Ranks that cannot be ended, and how they are. A host that does not say so in time is lost."""
        if ending is None:
            return []
        try:
            left: list[tuple[int, str]] = ending.result(max(0.0, deadline - time.monotonic()) + ANSWER_SECONDS)
        except TimeoutError:
            self._lose(
                f"has not ended its ranks within {DEATH_SECONDS + ANSWER_SECONDS:.0f} s: it is cut off, or it hangs"
            )
            return []
        except Exception as error:  # noqa: BLE001  # whatever carries the calls raises: its words are kept
            self._lose(f"is gone: {_in_words(error)}")
            return []
        return left

    def _taken(
        self, begun: _Begun, sight: Sight, heartbeats: HeartbeatFile, now: float
    ) -> Sequence[tuple[int, Ready | Word | Failed]]:
        self.words += sight.words
        if sight.is_abandoned:
            self._lose("was not asked for so long that it has ended its ranks")
        for seen in sight.ranks:
            rank = begun.ranks[seen.rank]
            rank.seen = seen
            rank.signal = None if seen.signal is None else signal.Signals(seen.signal)
            heartbeats.copy(seen.rank, seen.sign, now)
        for number, message in sight.messages:
            if isinstance(message, Failed):
                begun.ranks[number].failed = message
        return sight.messages

    def _ask(self, now: float) -> None:
        assert self._begun is not None
        self._begun.asked = now
        self._fire("look", self._begun.number, self.look_seconds)

    def _of_start(self, method: str, *arguments: object) -> None:
        if self._begun is not None and self.lost is None:
            self._fire(method, self._begun.number, *arguments)

    def _fire(self, method: str, number: int, *arguments: object) -> Future[Any]:
        now = time.monotonic()
        future = self.call(method, number, *arguments)

        def come(future: Future[Any]) -> None:
            self._came.put((number, now, future))
            self._told.send_bytes(b"")

        future.add_done_callback(come)
        return future

    def _lose(self, why: str) -> None:
        self.lost = f"host {self.name} ({self.address}) {why}"


def _in_words(error: BaseException) -> str:
    """An error that came from afar, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
