"""One start of a worker's ranks over all of its hosts: processes, search for the cause of a failure, end. No torch here."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection

from aiperf.journal.messages import Message
from aiperf.train.heartbeat import Stage
from aiperf.train.ranks import host_ranks
from aiperf.train.ranks.hang_watch import Watch
from aiperf.train.ranks.host_ranks import HostRanks, RankStart
from aiperf.train.ranks.protocol import ExecuteOrder, FailureReport, RankPlace, RankStatus, Ready, Recipe
from aiperf.train.ranks.remote_ranks import FRESH_SECONDS, DistantHost
from aiperf.train.ranks.rendezvous import OpenRendezvous

_GRACE_SECONDS = 0.3
"""Waiting time after the first sign of a failure, so that the rank that caused it can be distinguished from the others."""
_CAUSE_SECONDS = 10.0
"""Waiting time if ranks only report the loss of another rank. The kernel may take seconds to end a process with much memory."""
_KILLED, _FAILED, _ENDED, _NOTICED = range(4)
"""Likelihood that a rank caused the failure, the highest first. Ranks that wait for a dead one fail too."""


class StartFailed(Exception):
    """Error of a start of a worker's ranks. It has the failure, and the place of the rank that caused it."""

    def __init__(self, failure: FailureReport, seat: RankPlace, failed_devices: int = 0) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.seat = seat
        self.failed_devices = failed_devices
        """Number of ranks of this start with a failed accelerator. Several at once have a common fault, such as the driver."""


class Ranks:
    """Ranks of one start on all hosts of a worker. Those on this host are killed with the starting thread."""

    def __init__(
        self,
        recipe: Recipe,
        seats: Sequence[RankPlace],
        number: int,
        host: str,
        address: str,
        distant: Sequence[DistantHost],
    ) -> None:
        """`number`: of this start, increasing. Raise OSError if this host does not have `address`."""
        self.seats = tuple(seats)
        self.statuses: tuple[RankStatus, ...] = ()
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
        on_accelerators = any(seat.accelerator is not None for seat in seats)
        self._watch = Watch(self.heartbeats, on_accelerators=on_accelerators, start_seconds=self._patience)

    def _start_of(self, host: int, address: str | None) -> RankStart:
        return RankStart(self.seats, host, self._meeting.directions(host), address)

    def start(self) -> None:
        """Call it once. Raise OSError if a process of this host cannot be started."""
        for number, other in enumerate(self._distant, 1):
            other.begin(self._number, self._start_of(number, other.address))
            for status in other.ranks:
                self.heartbeats.enter(status.rank, Stage.IMPORT, self._patience)
        self._local.start()
        self._look(time.monotonic())

    def have_met(self) -> None:
        """Close the meeting point. Call it when all ranks have joined."""
        self._meeting.shut()

    @property
    def refused(self) -> str:
        strangers = self._meeting.refused
        return f" (refused, because they are no hosts of this worker: {', '.join(strangers)})" if strangers else ""

    def named(self, rank: int) -> str:
        """Return the name of a rank for messages: 'rank 0 of 4 on HOST'."""
        return f"rank {rank} of {len(self.seats)} on {self._names[self.seats[rank].host]}"

    def receive(self, timeout: float, wake: Connection) -> list[tuple[int, Ready | Message | FailureReport]]:
        """Poll all processes once, and return (rank, message). `wake` and answers of other hosts end the waiting."""
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

    def host_messages(self) -> list[Message]:
        """Return the new messages of the other hosts themselves, not of their ranks. They are returned once."""
        messages = [message for other in self._distant for message in other.messages]
        for other in self._distant:
            other.messages = []
        return messages

    def send(self, do: ExecuteOrder) -> None:
        self._local.send(do)
        for other in self._distant:
            other.send(do)

    def lost(self) -> tuple[str, int] | None:
        """Return (reason, first rank) of the first host that has been given up. None if there is none."""
        for number, other in enumerate(self._distant, 1):
            if other.lost is not None:
                own = [seat.rank for seat in self.seats if seat.host == number]
                return f"{other.lost} (it had {_ranks_in_words(own, len(self.seats))})", own[0]
        return None

    def has_ended(self) -> bool:
        return any(status.has_ended for status in self.statuses)

    def hung(self, seconds: float) -> tuple[int, str] | None:
        """None also if the state of a host is older than 3 s."""
        now = time.monotonic()
        if not self._are_seen_since(now - FRESH_SECONDS):
            return None
        return self._watch.hung(self.statuses, seconds, now)

    def slowest(self) -> tuple[int, str]:
        return self._watch.slowest(time.monotonic())

    def cause(self, wake: Connection, say: Callable[[Message], None]) -> tuple[FailureReport, int]:
        """Return (failure, rank that caused it).

        It waits up to 10 s for failures of other ranks, and up to 20 s for other hosts. `say`: called with each message that
        arrives meanwhile.
        """
        began = time.monotonic()
        while True:
            if (lost := self.lost()) is not None:
                return FailureReport(lost[0]), lost[1]
            passed, is_known = time.monotonic() - began, self._are_seen_since(began)
            if is_known and passed > _GRACE_SECONDS and is_clear(self.statuses):
                break
            if is_known and passed > _CAUSE_SECONDS:
                break
            for _, message in self.receive(0.05, wake):
                if not isinstance(message, Ready | FailureReport):
                    say(message)
        first = culprit(self.statuses, self.heartbeats.meetings())
        return failure(first, self.named(first.rank)), first.rank

    def failed_devices(self) -> int:
        return sum(status.failed is not None and status.failed.is_device for status in self.statuses)

    def _are_seen_since(self, moment: float) -> bool:
        return all(other.is_seen_since(moment) for other in self._distant)

    def release(self, seconds: float, wake: Connection) -> None:
        """Request the ranks to end by themselves, and wait up to `seconds`."""
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
        self._local.kill()
        for other in self._distant:
            other.kill()

    def end(self) -> list[tuple[int, str]]:
        """Kill the ranks on all hosts. Return (rank, text on its process) of each that cannot be ended.

        It waits up to 30 s for this host, up to 40 s for another one, and 10 s more for each further host without an answer,
        which is given up.
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
    """0: killed by a signal, except SIGABRT. 1: failed by itself. 2: ended without a report. 3: noticed a loss, or runs."""
    if status.signal is not None and status.signal != signal.SIGABRT:
        return _KILLED  # from outside, or by the kernel for its memory
    if status.failed is not None and not status.failed.is_peer:
        return _FAILED
    if status.failed is None and status.has_ended:
        return _ENDED  # Gloo and Horovod may abort when a peer is gone
    return _NOTICED


def is_clear(ranks: Sequence[RankStatus]) -> bool:
    """True if a rank was killed by a signal except SIGABRT, or failed by itself."""
    return any(suspicion(status) in (_KILLED, _FAILED) for status in ranks)


def culprit(ranks: Sequence[RankStatus], meetings: Sequence[int]) -> RankStatus:
    """Most suspected rank. Among equals, the one that has reached the fewest exchanges."""
    # if all only noticed the loss of another rank, the one with the fewest exchanges is the cause
    return min(ranks, key=lambda status: (suspicion(status), meetings[status.rank]))


def failure(status: RankStatus, name: str) -> FailureReport:
    if status.failed is not None:
        return replace(status.failed, reason=f"{name} failed: {status.failed.reason}")
    return FailureReport(f"{name} {status.end_in_words}")
