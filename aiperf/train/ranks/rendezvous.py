"""Rendezvous of Horovod's ranks: a small HTTP store on this host's loopback interface only.

Each start of a group has its own. It runs in the process that starts the ranks. torch's ranks meet in a file or at a store of
torch. Ranks of several hosts reach either through a `rendezvous_point.FilteredPort`.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

from aiperf.train.ranks.protocol import RankPlace
from aiperf.train.trainer_config import PEER_SECONDS


def open_rendezvous(collective: str, ranks: int) -> HorovodRendezvous | None:
    """Return the rendezvous of `ranks` ranks, by `trainer.collective`. None if Horovod cannot be the collective.

    `auto` may choose Horovod if it is installed. This is known only after a rank has loaded torch.
    """
    may_be_horovod = collective == "horovod" or (collective == "auto" and find_spec("horovod") is not None)
    return HorovodRendezvous() if ranks > 1 and may_be_horovod else None


def horovod_environment(
    seat: RankPlace, ranks: int, address: str, port: int, interface: str, host: str
) -> dict[str, str]:
    """Return the environment of a rank's process, as `horovodrun --gloo` sets it.

    Source: horovod/runner/gloo_run.py of horovod 0.28. `address`, `port`: of the rendezvous, as this rank reaches it.
    `interface`: to the other ranks. `host`: a name that only the ranks of its host share.
    """
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


class HorovodRendezvous:
    """Key-value store of Horovod's Gloo context (`PUT`, `GET`, `DELETE /scope/key`), horovod 0.28.

    Horovod's own RendezvousServer listens on all interfaces, where anybody may write to it.
    """

    def __init__(self) -> None:
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

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread: threading.Thread | None = threading.Thread(
            target=self._server.serve_forever, name="horovod-rendezvous", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """Port on 127.0.0.1."""
        return self._server.server_port

    def close(self) -> None:
        if self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._thread = None
