"""Where the ranks of one start meet, whichever collective joins them, as the host that leads keeps it. No torch here.

On one host all of it is on loopback. Over several hosts what the others must reach is behind doors in the leading host's
address (`guarded_door.py`), and only until all ranks have met.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from aiperf.train.meeting_place import StoreAt
from aiperf.train.ranks.guarded_door import GuardedDoor
from aiperf.train.ranks.rendezvous import open_rendezvous


@dataclass(frozen=True, slots=True)
class Addressed:
    """A server, as the ranks of one host reach it."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Directions:
    """Where the ranks of one host find the others."""

    horovod: Addressed | None
    """None: Horovod cannot be what joins them."""
    store: StoreAt | None
    """torch's; None: they meet in a file, since all of them are on one host."""


class MeetingPoint:
    """Stands as soon as it is made."""

    def __init__(self, collective: str, ranks: int, addresses: Sequence[str]) -> None:
        """`addresses`: the hosts', as they reach each other, the leading one's first; of one host it is not used."""
        self._leader, others = addresses[0], addresses[1:]
        self._rendezvous = open_rendezvous(collective, ranks)
        self._listening: socket.socket | None = None
        self._doors: dict[str, GuardedDoor] = {}
        try:
            if others:
                # torch's store would listen on all addresses by itself (2.13)
                self._listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
                self._doors["store"] = GuardedDoor(self._leader, others, self._listening.getsockname()[1])
                if self._rendezvous is not None:
                    self._doors["horovod"] = GuardedDoor(self._leader, others, self._rendezvous.port)
        except BaseException:
            self.close()
            raise

    def directions(self, host: int) -> Directions:
        """For the ranks of a host; 0: the leading one."""
        horovod = store = None
        if self._rendezvous is not None:
            here = Addressed("127.0.0.1", self._rendezvous.port)
            horovod = here if host == 0 else Addressed(self._leader, self._doors["horovod"].port)
        if self._listening is not None:
            own = self._listening
            here_too = StoreAt("127.0.0.1", own.getsockname()[1], own.fileno())
            store = here_too if host == 0 else StoreAt(self._leader, self._doors["store"].port)
        return Directions(horovod, store)

    @property
    def refused(self) -> list[str]:
        """Addresses that knocked and are none of the group's."""
        return sorted({address for door in self._doors.values() for address in door.refused})

    def shut(self) -> None:
        """All ranks have met: nothing listens any more but, on loopback, torch's store, which rank 0 keeps."""
        for door in self._doors.values():
            door.shut()
        self._close_servers()

    def close(self) -> None:
        """Leaves nothing."""
        for door in self._doors.values():
            door.close()
        self._doors = {}
        self._close_servers()

    def _close_servers(self) -> None:
        if self._rendezvous is not None:
            self._rendezvous.close()
        if self._listening is not None:
            self._listening.close()
