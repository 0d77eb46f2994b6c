"""One start of a worker's ranks over all of its hosts: processes, shared files, fault attribution and end. No torch here."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection

from aiperf.journal.messages import Word
from aiperf.train.heartbeat import HeartbeatFile
from aiperf.train.ranks import host_ranks
from aiperf.train.ranks.distant_host import FRESH_SECONDS, DistantHost, DistantRank
from aiperf.train.ranks.hang_watch import AnyRank, Watch
from aiperf.train.ranks.host_ranks import HostRanks, RankStart, Recipe
from aiperf.train.ranks.protocol import ExecuteOrder, Failed, RankPlace, Ready
from aiperf.train.ranks.rendezvous_point import OpenRendezvous
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
        self.processes: list[AnyRank] = []
        """Ranks in the order of their numbers."""
        self.ready: Ready | None = None
        self._distant = tuple(distant)
        self._names = (host, *(other.name for other in distant))
        self._number = number
        self._patience = recipe.conf.start_seconds
        self._watch: Watch | None = None
        with ExitStack() as stack:
            self._meeting = OpenRendezvous(
                recipe.conf.collective, len(seats), (address, *(other.address for other in distant))
            )
            stack.callback(self._meeting.close)
            self._local = HostRanks(recipe, self._start_of(0, address if distant else None))
            stack.pop_all()
        self.heartbeats = self._local.heartbeats

    def _start_of(self, host: int, address: str | None) -> RankStart:
        return RankStart(self.seats, host, self._meeting.directions(host), address)

    def start(self) -> None:
        distant_ranks: list[DistantRank] = []
        for number, other in enumerate(self._distant, 1):
            distant_ranks += other.begin(self._number, self._start_of(number, other.address))
        for rank in distant_ranks:
            self.heartbeats.enter(rank.rank, Stage.IMPORT, self._patience)
        self._local.start()
        self.processes = [*self._local.processes, *distant_ranks]
        on_accelerators = any(seat.accelerator is not None for seat in self.seats)
        self._watch = Watch(self.heartbeats, [*self._local.progress, *distant_ranks], on_accelerators=on_accelerators)

    def have_met(self) -> None:
        """Close the rendezvous, because all ranks have joined."""
        self._meeting.shut()

    @property
    def refused(self) -> str:
        """Describe the connections that were refused at the rendezvous. Empty if there were none."""
        strangers = self._meeting.refused
        return f" (sent away at the meeting point, as none of its hosts: {', '.join(strangers)})" if strangers else ""

    def named(self, rank: int) -> str:
        return f"rank {rank} of {len(self.seats)} on {self._names[self.seats[rank].host]}"

    def receive(self, timeout: float, wake: Connection) -> list[tuple[int, Ready | Word | Failed]]:
        """Return the messages by rank.

        Waits up to `timeout` seconds for the first, for `wake`, or for an answer of another host.
        """
        received = self._local.receive(
            timeout, [wake, *(other.answered for other in self._distant if other.lost is None)]
        )
        now = time.monotonic()
        for other in self._distant:
            received += other.take(self.heartbeats, now)
        self._local.look(now)
        return received

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
        """Return the reason and the first rank of a host that is given up. None if there is none."""
        for number, other in enumerate(self._distant, 1):
            if other.lost is not None:
                own = [seat.rank for seat in self.seats if seat.host == number]
                return f"{other.lost} (it had {_ranks_in_words(own, len(self.seats))})", own[0]
        return None

    def has_ended(self) -> bool:
        return any(process.has_ended() for process in self.processes)

    def hung(self, seconds: float) -> tuple[int, str] | None:
        """Return the rank that hangs, and a description. None if a host's observations are older than FRESH_SECONDS."""
        assert self._watch is not None
        now = time.monotonic()
        if not self._are_seen_since(now - FRESH_SECONDS):
            return None
        return self._watch.hung(self.processes, seconds, now)

    def slowest(self) -> tuple[int, str]:
        """Return the rank that is furthest behind, and its activity."""
        assert self._watch is not None
        return self._watch.slowest(time.monotonic())

    def cause(self, wake: Connection, say: Callable[[Word], None]) -> tuple[Failed, int]:
        """Return the failure and the rank that caused it.

        Wait a moment for the failures of other ranks, and report their messages.
        """
        began = time.monotonic()
        while True:
            if (lost := self.lost()) is not None:
                return Failed(lost[0]), lost[1]
            passed, is_known = time.monotonic() - began, self._are_seen_since(began)
            if is_known and passed > _GRACE_SECONDS and is_clear(self.processes):
                break
            if is_known and passed > _CAUSE_SECONDS:
                break
            for _, message in self.receive(0.05, wake):
                if not isinstance(message, Ready | Failed):
                    say(message)
        process = culprit(self.processes, self.heartbeats)
        return failure(process, self.named(process.rank)), process.rank

    def failed_devices(self) -> int:
        return sum(process.failed is not None and process.failed.is_device for process in self.processes)

    def _are_seen_since(self, moment: float) -> bool:
        return all(other.is_seen_since(moment) for other in self._distant)

    def release(self, seconds: float, wake: Connection) -> None:
        """Let the ranks end by themselves, waiting up to `seconds`."""
        self._local.hang_up()
        for other in self._distant:
            other.hang_up()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._all_ended():
            if self._distant:
                self.receive(0.01, wake)
            time.sleep(0.01)

    def _all_ended(self) -> bool:
        lost = {number for number, other in enumerate(self._distant, 1) if other.lost is not None}
        return all(process.has_ended() for process in self.processes if self.seats[process.rank].host not in lost)

    def kill(self) -> None:
        """Kill the remaining processes, including stopped ones. Does not wait for their end."""
        self._local.kill()
        for other in self._distant:
            other.kill()

    def end(self) -> list[tuple[int, str]]:
        """Kill the ranks, wait within limits, and remove their shared files.

        Return those that cannot be ended, with their state.
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


def suspicion(process: AnyRank) -> int:
    """Return the rank's position among the suspects. A lower number is a more likely cause."""
    if process.signal is not None and process.signal != signal.SIGABRT:
        return _KILLED  # from outside, or by the kernel for its memory
    if process.failed is not None and not process.failed.is_peer:
        return _FAILED
    if process.failed is None and process.has_ended():
        return _ENDED  # Gloo and Horovod may abort when a peer is gone
    return _NOTICED


def is_clear(processes: Sequence[AnyRank]) -> bool:
    """Return whether a rank shows more than the loss of another rank. All processes are polled before any is judged."""
    for process in processes:
        process.has_ended()
    return any(suspicion(process) in (_KILLED, _FAILED) for process in processes)


def culprit(processes: Sequence[AnyRank], heartbeats: HeartbeatFile) -> AnyRank:
    """Return the process that caused the failure. At least one has ended or failed."""
    for process in processes:
        process.has_ended()
    meetings = heartbeats.meetings()
    # if all only noticed the loss of another rank, the one with the fewest exchanges is the cause
    return min(processes, key=lambda process: (suspicion(process), meetings[process.rank]))


def failure(process: AnyRank, name: str) -> Failed:
    if process.failed is not None:
        return replace(process.failed, reason=f"{name} failed: {process.failed.reason}")
    return Failed(f"{name} {process.end_in_words()}")
