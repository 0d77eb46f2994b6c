"""Rendezvous of the ranks of one start, for every collective, on the leading host. No torch here.

On one host everything is on the loopback interface. For several hosts, filtered ports in the leading host's address
(`filtered_port.py`) are open until all ranks have met.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from aiperf.train.collectives.rendezvous_place import StoreAt
from aiperf.train.ranks.filtered_port import FilteredPort
from aiperf.train.ranks.rendezvous import open_rendezvous


@dataclass(frozen=True, slots=True)
class HostAddress:
    """Address of a server, as the ranks of one host reach it."""

    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Directions:
    """Rendezvous as the ranks of one host reach it."""

    horovod: HostAddress | None
    """Horovod's rendezvous. None if Horovod cannot be the collective."""
    store: StoreAt | None
    """torch's store. None if all ranks are on one host and meet in a file."""


class OpenRendezvous:
    """Rendezvous that is open from its creation."""

    def __init__(self, collective: str, ranks: int, addresses: Sequence[str]) -> None:
        """`addresses`: the hosts', as they reach each other, the leading one's first. Not used for one host."""
        self._leader, others = addresses[0], addresses[1:]
        self._rendezvous = open_rendezvous(collective, ranks)
        self._listening: socket.socket | None = None
        self._doors: dict[str, FilteredPort] = {}
        try:
            if others:
                # torch's store would listen on all addresses by itself (2.13)
                self._listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
                self._doors["store"] = FilteredPort(self._leader, others, self._listening.getsockname()[1])
                if self._rendezvous is not None:
                    self._doors["horovod"] = FilteredPort(self._leader, others, self._rendezvous.port)
        except BaseException:
            self.close()
            raise

    def directions(self, host: int) -> Directions:
        """Return the directions for the ranks of a host. 0 is the leading one."""
        horovod = store = None
        if self._rendezvous is not None:
            here = HostAddress("127.0.0.1", self._rendezvous.port)
            horovod = here if host == 0 else HostAddress(self._leader, self._doors["horovod"].port)
        if self._listening is not None:
            own = self._listening
            here_too = StoreAt("127.0.0.1", own.getsockname()[1], own.fileno())
            store = here_too if host == 0 else StoreAt(self._leader, self._doors["store"].port)
        return Directions(horovod, store)

    @property
    def refused(self) -> list[str]:
        """Return the addresses outside the group whose connections were refused."""
        return sorted({address for door in self._doors.values() for address in door.refused})

    def shut(self) -> None:
        """Stop listening after all ranks have met. torch's store of rank 0 remains, on the loopback interface."""
        for door in self._doors.values():
            door.shut()
        self._close_servers()

    def close(self) -> None:
        """Close all ports and servers."""
        for door in self._doors.values():
            door.close()
        self._doors = {}
        self._close_servers()

    def _close_servers(self) -> None:
        if self._rendezvous is not None:
            self._rendezvous.close()
        if self._listening is not None:
            self._listening.close()
