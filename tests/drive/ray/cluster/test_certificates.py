"""TLS between a node and its head: the reason of each refusal in words."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from aiperf.atomic_files import replace_file
from aiperf.drive.ray.cluster import join_node, ray_environment
from aiperf.drive.ray.cluster.head import HeadAddress
from aiperf.drive.ray.cluster.ray_environment import CA, CERTIFICATE, KEY, Authority, new_authority, refusal
from aiperf.errors import RuntimeNotStarted
from cluster.place import HEAD_FILE


def made(authority: Authority, folder: Path, address: str = "127.0.0.1") -> dict[str, str]:
    folder.mkdir()
    return ray_environment.tls_environment(authority, folder, address)


@contextmanager
def head(environment: dict[str, str], speaks_tls: bool = True) -> Iterator[str]:
    """A server at 127.0.0.2 with the certificate of a node, which requires one of its clients as Ray does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(environment[CERTIFICATE], environment[KEY])
    context.load_verify_locations(environment[CA])
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.2", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection = listening.accept()[0]
                except OSError:
                    return
                with connection, suppress(OSError):
                    if speaks_tls:
                        context.wrap_socket(connection, server_side=True).close()
                    else:
                        connection.sendall(b"HTTP/1.1 400\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.2:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_nodes_of_one_authority_accept_each_other(tmp_path: Path) -> None:
    authority = new_authority()
    with head(made(authority, tmp_path / "head", "127.0.0.2")) as address:
        assert refusal(address, made(authority, tmp_path / "node", "10.0.0.7"), 5.0) is None

    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "node").iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("address", "IP address mismatch"),
        ("authority", "self-signed|certificate signature failure|unable to get"),
        ("early", "not yet valid"),
        ("late", "expired"),
        ("no TLS", "WRONG_VERSION|RECORD_LAYER"),
    ],
)
def test_a_refused_connection_to_the_head_has_its_reason(
    fault: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray itself would wait for its gcs for ten minutes and give no reason."""
    authority = new_authority()
    if fault in ("early", "late"):
        monkeypatch.setattr(ray_environment, "BEFORE" if fault == "early" else "AFTER", timedelta(days=-1))
    if fault == "late":
        monkeypatch.setattr(ray_environment, "BEFORE", timedelta(days=2))
    server = made(
        new_authority() if fault == "authority" else authority,
        tmp_path / "head",
        "127.0.0.9" if fault == "address" else "127.0.0.2",
    )
    with head(server, speaks_tls=fault != "no TLS") as address:
        run = HeadAddress(address, "x", authority)
        replace_file(tmp_path / HEAD_FILE, msgspec.json.encode(run), 0o600)

        with pytest.raises(RuntimeNotStarted, match=f"by TLS, but that failed: .*({reason})"):
            join_node.join(tmp_path, patience_seconds=1.0)
