"""Where Horovod's ranks find each other: a small HTTP store, one for each start of a group, on this host's loopback only.

It lives in the process that starts the ranks. (torch's ranks meet in a file.)
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

from aiperf.train.trainer_config import PEER_SECONDS


def open_rendezvous(collective: str, ranks: int) -> HorovodRendezvous | None:
    """The place where so many ranks meet, by `trainer.collective`; None where none of theirs is Horovod, which alone needs it.

    `auto` may come to Horovod wherever it is installed; whether it can be used is known only once a rank has loaded torch.
    """
    may_be_horovod = collective == "horovod" or (collective == "auto" and find_spec("horovod") is not None)
    return HorovodRendezvous() if ranks > 1 and may_be_horovod else None


class HorovodRendezvous:
    """The key-value store that Horovod's Gloo context asks for (`PUT`, `GET`, `DELETE /scope/key`), horovod 0.28.

    Horovod's own RendezvousServer does the same, but listens on all interfaces, where anybody may write to it.
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
                # sent when a rank has finished with a scope; others may still read it, and the store dies with the start
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
        self._thread = threading.Thread(target=self._server.serve_forever, name="horovod-rendezvous", daemon=True)
        self._thread.start()

    def environment(self, rank: int, ranks: int) -> dict[str, str]:
        """What a rank's process needs, as `horovodrun --gloo` sets it (horovod/runner/gloo_run.py)."""
        return {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(self._server.server_port),
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_IFACE": "lo",
            "HOROVOD_HOSTNAME": "localhost",
            "HOROVOD_RANK": str(rank),
            "HOROVOD_SIZE": str(ranks),
            "HOROVOD_LOCAL_RANK": str(rank),
            "HOROVOD_LOCAL_SIZE": str(ranks),
            "HOROVOD_CROSS_RANK": "0",
            "HOROVOD_CROSS_SIZE": "1",
            # the group watches heartbeats itself and says which rank it was
            "HOROVOD_STALL_CHECK_DISABLE": "1",
            # Gloo's own 30 s would have the rank that waits fail before the one that hangs is told from it
            "HOROVOD_GLOO_TIMEOUT_SECONDS": f"{PEER_SECONDS:.0f}",
        }

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
