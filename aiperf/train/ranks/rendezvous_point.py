"""Rendezvous of the ranks of one start, for every collective, on the leading host. No torch here.

On one host everything is on the loopback interface. Horovod's rendezvous and torch's store have no authentication, so they
listen there, and connections of other hosts pass through a filtered port in the leading host's address. It accepts only
source addresses of the group's hosts. After all ranks have met nothing listens any more, and connections continue.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from aiperf.train.collectives.rendezvous_place import StoreAt
from aiperf.train.ranks.rendezvous import open_rendezvous

BLOCK_BYTES = 2**16


class FilteredPort:
    """Port that listens from its creation."""

    def __init__(self, address: str, admitted: Collection[str], port: int) -> None:
        """`address`: this host's, as the others reach it. `port`: the server's, on 127.0.0.1.

        Raises:
            OSError: this host does not have that address.
        """
        self.refused: set[str] = set()
        """Addresses whose connections were refused."""
        self._admitted = frozenset(admitted)
        self._behind = port
        self._standing: set[asyncio.Task[None]] = set()
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listening.bind((address, 0))
        except BaseException:
            listening.close()
            raise
        self.port: int = listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._come, sock=listening, backlog=4096))
        self._thread = threading.Thread(target=self._loop.run_forever, name="guarded-door", daemon=True)
        self._thread.start()

    def shut(self) -> None:
        """Stop listening. Established connections continue."""

        async def shut() -> None:
            self._server.close()

        asyncio.run_coroutine_threadsafe(shut(), self._loop).result()

    def close(self) -> None:
        async def end() -> None:
            self._server.close()
            for task in self._standing:
                task.cancel()
            await asyncio.gather(*self._standing, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._standing.add(task)
        task.add_done_callback(self._standing.discard)
        try:
            host = writer.get_extra_info("peername")[0]
            if host not in self._admitted:
                self.refused.add(host)
                return
            await self._join(reader, writer)
        except (OSError, asyncio.CancelledError):  # one end is closed. The other end is closed below
            return
        finally:
            await _closed(writer)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, before = await asyncio.open_connection("127.0.0.1", self._behind)
        ways = [asyncio.ensure_future(_pass_on(reader, before)), asyncio.ensure_future(_pass_on(behind, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.ALL_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await _closed(before)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while block := await reader.read(BLOCK_BYTES):
            writer.write(block)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with suppress(OSError, asyncio.CancelledError):
        await writer.wait_closed()


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
        for door in self._doors.values():
            door.close()
        self._doors = {}
        self._close_servers()

    def _close_servers(self) -> None:
        if self._rendezvous is not None:
            self._rendezvous.close()
        if self._listening is not None:
            self._listening.close()
