"""One start of a worker's ranks over all of its hosts: processes, shared files, fault attribution and end. No torch here."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection

from aiperf.journal.messages import Word
from aiperf.train.ranks import host_ranks
from aiperf.train.ranks.distant_host import FRESH_SECONDS, DistantHost
from aiperf.train.ranks.hang_watch import Watch
from aiperf.train.ranks.host_ranks import HostRanks, RankStart, Recipe
from aiperf.train.ranks.protocol import ExecuteOrder, Failed, RankPlace, RankStatus, Ready
from aiperf.train.ranks.rendezvous import OpenRendezvous
from aiperf.train.stages import Stage

_GRACE_SECONDS = 0.3
"""Waiting time after the first sign of a failure, so that the rank that caused it can be distinguished from the others."""
_CAUSE_SECONDS = 10.0
"""Waiting time if ranks only report the loss of another rank. The kernel may take seconds to end a process with much memory."""
_KILLED, _FAILED, _ENDED, _NOTICED = range(4)
"""Likelihood that a rank caused the failure, the highest first. Ranks that wait for a dead one fail too."""


class StartFailed(Exception):
    """A start failed."""

    def __init__(self, failure: Failed, seat: RankPlace, failed_devices: int = 0) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.seat = seat
        self.failed_devices = failed_devices
        """Ranks of this start whose accelerator failed. Several at once have one common fault: driver, fabric, runtime."""


class Ranks:
    """Ranks of one start. `start` starts them. Those of this host die with the thread that calls it."""

    def __init__(
        self,
        recipe: Recipe,
        seats: Sequence[RankPlace],
        number: int,
        host: str,
        address: str,
        distant: Sequence[DistantHost],
    ) -> None:
        """Open the rendezvous of one start of a worker's ranks.

        Args:
            recipe: settings of the worker.
            seats: place of each rank.
            number: number of this start, increasing.
            host: name of this host.
            address: address of this host, for the rendezvous.
            distant: the other hosts of the worker.

        Raises:
            OSError: this host does not have `address`.
        """
        self.seats = tuple(seats)
        self.statuses: tuple[RankStatus, ...] = ()
        """Ranks by number, as last observed."""
        self.ready: Ready | None = None
        self._distant = tuple(distant)
        self._names = (host, *(other.name for other in distant))
        self._number = number
        self._patience = recipe.conf.start_seconds
        with ExitStack() as stack:
            self._meeting = OpenRendezvous(
                recipe.conf.collective, len(seats), (address, *(other.address for other in distant))
            )
            stack.callback(self._meeting.close)
            self._local = HostRanks(recipe, self._start_of(0, address if distant else None))
            stack.pop_all()
        self.heartbeats = self._local.heartbeats
        self._watch = Watch(self.heartbeats, on_accelerators=any(seat.accelerator is not None for seat in seats))

    def _start_of(self, host: int, address: str | None) -> RankStart:
        return RankStart(self.seats, host, self._meeting.directions(host), address)

    def start(self) -> None:
        for number, other in enumerate(self._distant, 1):
            other.begin(self._number, self._start_of(number, other.address))
            for status in other.ranks:
                self.heartbeats.enter(status.rank, Stage.IMPORT, self._patience)
        self._local.start()
        self._look(time.monotonic())

    def have_met(self) -> None:
        """Close the rendezvous. Call it when all ranks have joined."""
        self._meeting.shut()

    @property
    def refused(self) -> str:
        """Text with the addresses that were refused at the rendezvous. Empty if there were none."""
        strangers = self._meeting.refused
        return f" (sent away at the meeting point, as none of its hosts: {', '.join(strangers)})" if strangers else ""

    def named(self, rank: int) -> str:
        return f"rank {rank} of {len(self.seats)} on {self._names[self.seats[rank].host]}"

    def receive(self, timeout: float, wake: Connection) -> list[tuple[int, Ready | Word | Failed]]:
        """Return (rank, message) pairs.

        Waits up to `timeout` seconds for the first, for `wake`, or for an answer of another host.
        """
        received = self._local.receive(
            timeout, [wake, *(other.answered for other in self._distant if other.lost is None)]
        )
        now = time.monotonic()
        for other in self._distant:
            received += other.take(self.heartbeats, now)
        self._look(now)
        return received

    def _look(self, now: float) -> None:
        self.statuses = (*self._local.look(now), *(status for other in self._distant for status in other.ranks))

    def words_of_hosts(self) -> list[Word]:
        """Return the messages of the other hosts themselves."""
        messages = [word for other in self._distant for word in other.words]
        for other in self._distant:
            other.words = []
        return messages

    def send(self, do: ExecuteOrder) -> None:
        self._local.send(do)
        for other in self._distant:
            other.send(do)

    def lost(self) -> tuple[str, int] | None:
        """Return (reason, first rank) of a host that is given up. None if there is none."""
        for number, other in enumerate(self._distant, 1):
            if other.lost is not None:
                own = [seat.rank for seat in self.seats if seat.host == number]
                return f"{other.lost} (it had {_ranks_in_words(own, len(self.seats))})", own[0]
        return None

    def has_ended(self) -> bool:
        return any(status.has_ended for status in self.statuses)

    def hung(self, seconds: float) -> tuple[int, str] | None:
        """Return (rank that hangs, its activity as text). None if none hangs, or a host's state is older than FRESH_SECONDS.

        `seconds`: see `Watch.hung`.
        """
        now = time.monotonic()
        if not self._are_seen_since(now - FRESH_SECONDS):
            return None
        return self._watch.hung(self.statuses, seconds, now)

    def slowest(self) -> tuple[int, str]:
        """Return (rank that is furthest behind, its activity as text)."""
        return self._watch.slowest(time.monotonic())

    def cause(self, wake: Connection, say: Callable[[Word], None]) -> tuple[Failed, int]:
        """Return (failure, rank that caused it) after a rank has ended, failed or been lost.

        Wait up to 10 s for the failures of other ranks. `say` is called with each message that arrives meanwhile.
        """
        began = time.monotonic()
        while True:
            if (lost := self.lost()) is not None:
                return Failed(lost[0]), lost[1]
            passed, is_known = time.monotonic() - began, self._are_seen_since(began)
            if is_known and passed > _GRACE_SECONDS and is_clear(self.statuses):
                break
            if is_known and passed > _CAUSE_SECONDS:
                break
            for _, message in self.receive(0.05, wake):
                if not isinstance(message, Ready | Failed):
                    say(message)
        first = culprit(self.statuses, self.heartbeats.meetings())
        return failure(first, self.named(first.rank)), first.rank

    def failed_devices(self) -> int:
        return sum(status.failed is not None and status.failed.is_device for status in self.statuses)

    def _are_seen_since(self, moment: float) -> bool:
        return all(other.is_seen_since(moment) for other in self._distant)

    def release(self, seconds: float, wake: Connection) -> None:
        """Request the ranks to end by themselves, and wait up to `seconds` until all have ended."""
        self._local.hang_up()
        for other in self._distant:
            other.hang_up()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._all_ended():
            self.receive(0.01, wake)

    def _all_ended(self) -> bool:
        lost = {number for number, other in enumerate(self._distant, 1) if other.lost is not None}
        return all(status.has_ended for status in self.statuses if self.seats[status.rank].host not in lost)

    def kill(self) -> None:
        """Kill the remaining processes, including stopped ones. Does not wait for their end."""
        self._local.kill()
        for other in self._distant:
            other.kill()

    def end(self) -> list[tuple[int, str]]:
        """Kill the ranks, wait within limits, and remove their shared files.

        Return (rank, text on its process) of each rank that cannot be ended.
        """
        deadline = time.monotonic() + host_ranks.DEATH_SECONDS
        endings = [(other, other.end()) for other in self._distant]
        left = self._local.end()
        for other, ending in endings:
            left += other.ended(ending, deadline)
        self._meeting.close()
        return left


def _ranks_in_words(ranks: Sequence[int], of: int) -> str:
    which = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
    return f"{which} of {of}"


def suspicion(status: RankStatus) -> int:
    """Return a number from 0 to 3 for the likelihood that a rank caused a failure. A lower number is a more likely cause."""
    if status.signal is not None and status.signal != signal.SIGABRT:
        return _KILLED  # from outside, or by the kernel for its memory
    if status.failed is not None and not status.failed.is_peer:
        return _FAILED
    if status.failed is None and status.has_ended:
        return _ENDED  # Gloo and Horovod may abort when a peer is gone
    return _NOTICED


def is_clear(ranks: Sequence[RankStatus]) -> bool:
    """Return True if the cause is known: a rank was killed, or failed by itself and not by the loss of another rank."""
    return any(suspicion(status) in (_KILLED, _FAILED) for status in ranks)


def culprit(ranks: Sequence[RankStatus], meetings: Sequence[int]) -> RankStatus:
    """Return the rank that caused the failure. At least one has ended or failed. `meetings`: exchanges of each rank."""
    # if all only noticed the loss of another rank, the one with the fewest exchanges is the cause
    return min(ranks, key=lambda status: (suspicion(status), meetings[status.rank]))


def failure(status: RankStatus, name: str) -> Failed:
    if status.failed is not None:
        return replace(status.failed, reason=f"{name} failed: {status.failed.reason}")
    return Failed(f"{name} {status.end_in_words}")
