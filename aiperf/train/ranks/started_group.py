"""One start of a worker's ranks over all of its hosts: their processes, what they share, who is at fault, and how it ends.

No torch here. Of one host there is nothing distant in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection

from aiperf.journal.messages import Word
from aiperf.train.ranks import fault_attribution, host_ranks
from aiperf.train.ranks.any_rank import AnyRank
from aiperf.train.ranks.distant_host import FRESH_SECONDS, DistantHost, DistantRank
from aiperf.train.ranks.hang_watch import Watch
from aiperf.train.ranks.host_ranks import HostRanks, Recipe, Start
from aiperf.train.ranks.meeting_point import MeetingPoint
from aiperf.train.ranks.protocol import Do, Failed, Ready
from aiperf.train.ranks.seats import Seat
from aiperf.train.stages import Stage

_GRACE_SECONDS = 0.3
"""After the first sign of a failure, so that the rank that caused it is told from those that only noticed."""
_CAUSE_SECONDS = 10.0
"""So long where all that is heard is that another rank is gone: the kernel takes its time to end one that holds much."""


class NotStarted(Exception):
    """A start failed."""

    def __init__(self, failure: Failed, seat: Seat) -> None:
        super().__init__(failure.reason)
        self.failure = failure
        self.seat = seat


class Ranks:
    """One start's ranks. They are started by `start`; those of this host die with the thread that calls it."""

    def __init__(
        self,
        recipe: Recipe,
        seats: Sequence[Seat],
        number: int,
        host: str,
        address: str,
        distant: Sequence[DistantHost],
    ) -> None:
        """`number`: of the start; each has a higher one. `host`, `address`: of this host. `distant`: the others.

        Raises:
            OSError: this host does not have that address.
        """
        self.seats = tuple(seats)
        self.processes: list[AnyRank] = []
        """By rank."""
        self.ready: Ready | None = None
        self._distant = tuple(distant)
        self._names = (host, *(other.name for other in distant))
        self._number = number
        self._patience = recipe.conf.start_seconds
        self._watch: Watch | None = None
        with ExitStack() as stack:
            self._meeting = MeetingPoint(
                recipe.conf.collective, len(seats), (address, *(other.address for other in distant))
            )
            stack.callback(self._meeting.close)
            self._here = HostRanks(recipe, self._start_of(0, address if distant else None))
            stack.pop_all()
        self.heartbeats = self._here.heartbeats

    def _start_of(self, host: int, address: str | None) -> Start:
        return Start(self.seats, host, self._meeting.directions(host), address)

    def start(self) -> None:
        """All of them."""
        there: list[DistantRank] = []
        for number, other in enumerate(self._distant, 1):
            there += other.begin(self._number, self._start_of(number, other.address))
        for rank in there:
            self.heartbeats.enter(rank.rank, Stage.IMPORT, self._patience)
        self._here.start()
        self.processes = [*self._here.processes, *there]
        self._watch = Watch(self.heartbeats, [*self._here.progress, *there])

    def have_met(self) -> None:
        """All ranks are joined: nobody else is to come."""
        self._meeting.shut()

    @property
    def refused(self) -> str:
        """Who knocked at the meeting point and was sent away; '' where nobody did."""
        strangers = self._meeting.refused
        return f" (sent away at the meeting point, as none of its hosts: {', '.join(strangers)})" if strangers else ""

    def named(self, rank: int) -> str:
        """A rank with its host."""
        return f"rank {rank} of {len(self.seats)} on {self._names[self.seats[rank].host]}"

    def hear(self, timeout: float, wake: Connection) -> list[tuple[int, Ready | Word | Failed]]:
        """What ranks have sent, by rank, waiting up to `timeout` for the first, or for `wake`, or for news of another host."""
        heard = self._here.hear(timeout, [wake, *(other.news for other in self._distant if other.lost is None)])
        now = time.monotonic()
        for other in self._distant:
            heard += other.take(self.heartbeats, now)
        self._here.look(now)
        return heard

    def words_of_hosts(self) -> list[Word]:
        """What the other hosts have to say of themselves."""
        said = [word for other in self._distant for word in other.words]
        for other in self._distant:
            other.words = []
        return said

    def tell(self, do: Do) -> None:
        """An order to each rank."""
        self._here.tell(do)
        for other in self._distant:
            other.tell(do)

    def lost(self) -> tuple[str, int] | None:
        """A host that is given up: why, and the first of its ranks."""
        for number, other in enumerate(self._distant, 1):
            if other.lost is not None:
                own = [seat.rank for seat in self.seats if seat.host == number]
                return f"{other.lost} (it had {_ranks_in_words(own, len(self.seats))})", own[0]
        return None

    def has_ended(self) -> bool:
        """Whether one of them has."""
        return any(process.has_ended() for process in self.processes)

    def hung(self, seconds: float) -> tuple[int, str] | None:
        """The rank that hangs, and how. Nobody is judged by what is not known of all."""
        assert self._watch is not None
        now = time.monotonic()
        if not self._are_seen_since(now - FRESH_SECONDS):
            return None
        return self._watch.hung(self.processes, seconds, now)

    def slowest(self) -> tuple[int, str]:
        """The rank that is furthest behind, and what it is at."""
        assert self._watch is not None
        return self._watch.slowest(time.monotonic())

    def cause(self, wake: Connection, say: Callable[[Word], None]) -> tuple[Failed, int]:
        """Which rank it was, after a moment in which the others' failures come in too, of all hosts; their words are said."""
        began = time.monotonic()
        while True:
            if (lost := self.lost()) is not None:
                return Failed(lost[0]), lost[1]
            passed, is_known = time.monotonic() - began, self._are_seen_since(began)
            if is_known and passed > _GRACE_SECONDS and fault_attribution.is_clear(self.processes):
                break
            if is_known and passed > _CAUSE_SECONDS:
                break
            for _, message in self.hear(0.05, wake):
                if not isinstance(message, Ready | Failed):
                    say(message)
        culprit = fault_attribution.culprit(self.processes, self.heartbeats)
        return fault_attribution.failure(culprit, self.named(culprit.rank)), culprit.rank

    def _are_seen_since(self, moment: float) -> bool:
        return all(other.is_seen_since(moment) for other in self._distant)

    def let_go(self, seconds: float, wake: Connection) -> None:
        """Has them end by themselves, waiting so long."""
        self._here.hang_up()
        for other in self._distant:
            other.hang_up()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._all_ended():
            if self._distant:
                self.hear(0.01, wake)
            time.sleep(0.01)

    def _all_ended(self) -> bool:
        lost = {number for number, other in enumerate(self._distant, 1) if other.lost is not None}
        return all(process.has_ended() for process in self.processes if self.seats[process.rank].host not in lost)

    def kill(self) -> None:
        """What still runs, a stopped process too; does not wait for its end."""
        self._here.kill()
        for other in self._distant:
            other.kill()

    def end(self) -> list[tuple[int, str]]:
        """Kills, waits within limits, and removes what the ranks shared. Gives those that cannot be ended, and how they are."""
        deadline = time.monotonic() + host_ranks.DEATH_SECONDS
        endings = [(other, other.end()) for other in self._distant]
        left = self._here.end()
        for other, ending in endings:
            left += other.ended(ending, deadline)
        self._meeting.close()
        return left


def _ranks_in_words(ranks: Sequence[int], of: int) -> str:
    which = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
    return f"{which} of {of}"
