"""Meeting point of the ranks of one start on the leading host, with servers for Horovod and torch. No torch here.

Their stores have no authentication. On one host everything is on the loopback interface. For several hosts the servers accept
only source addresses of the worker's hosts. After all ranks have met nothing listens any more.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from importlib.util import find_spec
from multiprocessing.connection import wait
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

from aiperf.train.collectives import StoreAt
from aiperf.train.ranks.protocol import RankPlace
from aiperf.train.trainer_config import PEER_SECONDS

LOOPBACK = "127.0.0.1"
BLOCK_BYTES = 2**16


class FilteredServer(ThreadingTCPServer):
    """TCP server on a free port that accepts connections from given addresses only."""

    daemon_threads = True
    request_queue_size = 4096

    def __init__(self, address: str, admitted: Collection[str], handler: type[BaseRequestHandler]) -> None:
        """`admitted`: source addresses. Raise OSError if this host does not have `address`."""
        super().__init__((address, 0), handler)
        self.port: int = self.server_address[1]
        self.refused: set[str] = set()
        self._admitted = frozenset(admitted)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="rendezvous", daemon=True)
        self._thread.start()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        host = client_address[0]
        if host not in self._admitted:
            self.refused.add(host)
        return host in self._admitted

    def shut(self) -> None:
        """Established connections continue. It may be called again."""
        if self._thread.is_alive():
            self.shutdown()
            self._thread.join()
            self.server_close()

    def close(self) -> None:
        self.shut()


class HorovodRendezvous(FilteredServer):
    """HTTP key-value store through which Horovod's ranks find each other (`PUT`, `GET`, `DELETE /scope/key`), for horovod 0.28.

    Horovod's own RendezvousServer listens on all interfaces, and any host may write to it.
    """

    def __init__(self, address: str = LOOPBACK, admitted: Collection[str] = (LOOPBACK,)) -> None:
        store: dict[str, bytes] = {}

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                store[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
                self._answer(200)

            def do_GET(self) -> None:
                value = store.get(self.path)
                self._answer(404) if value is None else self._answer(200, value)

            def do_DELETE(self) -> None:
                # sent when a rank has finished with a scope. Others may still read it, and the store ends with the start
                self._answer(200)

            def _answer(self, status: int, body: bytes = b"") -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return None

        super().__init__(address, admitted, Handler)


class Relay(FilteredServer):
    """Server that passes each connection to a port of this host's loopback interface, in both directions."""

    def __init__(self, address: str, admitted: Collection[str], port: int) -> None:
        standing = self._standing = set[socket.socket]()

        class Handler(BaseRequestHandler):
            def handle(self) -> None:
                standing.add(self.request)
                with suppress(OSError), socket.create_connection((LOOPBACK, port)) as behind:
                    _pass_on(self.request, behind)
                standing.discard(self.request)

        super().__init__(address, admitted, Handler)

    def close(self) -> None:
        super().close()
        for end in list(self._standing):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    to = {one: other, other: one}
    while to:
        for end in wait(list(to)):
            assert isinstance(end, socket.socket)
            if block := end.recv(BLOCK_BYTES):
                to[end].sendall(block)
            else:
                to.pop(end).shutdown(socket.SHUT_WR)


@dataclass(frozen=True, slots=True)
class Directions:
    """Addresses of the meeting point (Horovod's and torch's servers), as the ranks of one host reach them."""

    horovod: tuple[str, int] | None
    """Address and port of Horovod's rendezvous. None if Horovod cannot be the collective."""
    store: StoreAt | None
    """torch's store. None if all ranks are on one host and meet in a file."""


class OpenRendezvous:
    """Meeting point of the ranks of one start: servers for Horovod and torch that are open from its creation."""

    def __init__(self, collective: str, ranks: int, addresses: Sequence[str]) -> None:
        """`addresses`: of the hosts, not used for one. Raise OSError if this host does not have the first."""
        spans = len(addresses) > 1
        self._leader, admitted = (addresses[0], addresses) if spans else (LOOPBACK, [LOOPBACK])
        self._horovod: HorovodRendezvous | None = None
        self._listening: socket.socket | None = None
        self._relay: Relay | None = None
        try:
            # 'auto' may choose Horovod if it is installed. This is known only after a rank has loaded torch
            if ranks > 1 and (collective == "horovod" or (collective == "auto" and find_spec("horovod") is not None)):
                self._horovod = HorovodRendezvous(self._leader, admitted)
            if spans:
                # torch's store would listen on all addresses by itself (2.13)
                self._listening = socket.create_server((LOOPBACK, 0), backlog=4096)
                self._relay = Relay(self._leader, admitted, self._listening.getsockname()[1])
        except BaseException:
            self.close()
            raise

    def directions(self, host: int) -> Directions:
        horovod = None if self._horovod is None else (self._leader, self._horovod.port)
        if self._listening is None or self._relay is None:
            return Directions(horovod, None)
        own = StoreAt(LOOPBACK, self._listening.getsockname()[1], self._listening.fileno())
        return Directions(horovod, own if host == 0 else StoreAt(self._leader, self._relay.port))

    @property
    def refused(self) -> list[str]:
        """Hosts outside the worker that tried to connect."""
        return sorted({address for server in self._servers() for address in server.refused})

    def shut(self) -> None:
        """Call it once all ranks have met. torch's store of rank 0 stays open on the loopback interface."""
        for server in self._servers():
            server.shut()
        if self._listening is not None:
            self._listening.close()

    def close(self) -> None:
        self.shut()
        for server in self._servers():
            server.close()

    def _servers(self) -> list[FilteredServer]:
        return [server for server in (self._horovod, self._relay) if server is not None]


def horovod_environment(
    seat: RankPlace, ranks: int, address: str, port: int, interface: str, host: str
) -> dict[str, str]:
    """As `horovodrun --gloo` of horovod 0.28 sets them (runner/gloo_run.py). `host`: a name that only its ranks share."""
    return {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_IFACE": interface,
        "HOROVOD_HOSTNAME": host,
        "HOROVOD_RANK": str(seat.rank),
        "HOROVOD_SIZE": str(ranks),
        "HOROVOD_LOCAL_RANK": str(seat.local_rank),
        "HOROVOD_LOCAL_SIZE": str(seat.local_size),
        "HOROVOD_CROSS_RANK": str(seat.cross_rank),
        "HOROVOD_CROSS_SIZE": str(seat.cross_size),
        # the group watches heartbeats itself and names the rank
        "HOROVOD_STALL_CHECK_DISABLE": "1",
        # with Gloo's own 30 s the waiting rank would fail before the hung one is identified
        "HOROVOD_GLOO_TIMEOUT_SECONDS": f"{PEER_SECONDS:.0f}",
    }
