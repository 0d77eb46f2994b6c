"""Port in a host's address in front of a server on its loopback interface.

It is open only while ranks meet, and only for the group's hosts.

Horovod's rendezvous and torch's store have no authentication. So they listen on the loopback interface, and connections
of other hosts pass through here. Only source addresses of the group's own hosts are accepted. All others are closed
without a byte. After all ranks have met nothing listens any more, and established connections continue.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Collection
from contextlib import suppress

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
        """Stop listening and end all connections."""

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
