"""Attempts of a stranger on the network at open ports, as a script with the standard library alone.

    python stranger.py HOST:PORT…   prints a JSON object: answers by address

The stranger uses raw bytes, HTTP, gRPC by hand (HTTP/2 with literal headers), and TLS, each without token and certificate.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
import ssl
import struct
import sys
from concurrent.futures import ThreadPoolExecutor

SECONDS = 10.0
METHODS = (
    "/ray.rpc.syncer.RaySyncer/StartSync",
    "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo",
    "/ray.rpc.InternalKVGcsService/InternalKVKeys",
    "/ray.rpc.JobInfoGcsService/AddJob",
    "/ray.rpc.ActorInfoGcsService/RegisterActor",
    "/ray.rpc.NodeManagerService/GetNodeStats",
    "/ray.rpc.NodeManagerService/RequestWorkerLease",
    "/ray.rpc.NodeManagerService/ShutdownRaylet",
    "/ray.rpc.ObjectManagerService/Push",
    "/ray.rpc.ObjectManagerService/Pull",
    "/ray.rpc.CoreWorkerService/GetCoreWorkerStats",
    "/ray.rpc.CoreWorkerService/PushTask",
    "/ray.rpc.CoreWorkerService/Exit",
    "/ray.rpc.ReporterService/ReportOCMetrics",
    "/grpc.health.v1.Health/Check",
)
REQUESTS = (
    ("GET", "/"),
    ("GET", "/metrics"),
    ("GET", "/api/healthz"),
    ("GET", "/api/v0/nodes"),
    ("POST", "/api/jobs/"),
    ("POST", "/get_or_create_runtime_env"),
    ("GET", "/global/rank_0"),
)


def tried(address: str) -> dict[str, object]:
    """All that he gets from one address: what each HTTP request and gRPC call was answered, and what came after raw bytes."""
    return {
        "raw": _answer(address, secrets.token_bytes(64), 2.0)[:200].decode("latin-1"),
        "http": {f"{verb} {path}": _http(address, verb, path) for verb, path in REQUESTS},
        "grpc": {method: _grpc(address, method) for method in METHODS},
        "tls": _tls(address),
    }


def _http(address: str, verb: str, path: str) -> str:
    """Return the status and the beginning of the body. '' if the answer is not HTTP."""
    request = f"{verb} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    answer = _answer(address, request.encode(), 3.0).decode("latin-1")
    found = re.match(r"HTTP/1\.[01] (\d+)", answer)
    body = answer.partition("\r\n\r\n")[2]
    return f"{found[1]} {body[:300]}" if found else ""


def _grpc(address: str, method: str) -> int | None:
    """Return the status of the call. None if the answer is not gRPC."""
    headers = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "x")]
    headers += [("content-type", "application/grpc"), ("te", "trailers")]
    block = b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in headers
    )
    sent = (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(4, 0, 0, b"") + _frame(1, 4, 1, block) + _frame(0, 1, 1, bytes(5))
    )
    answer = _answer(address, sent, SECONDS, until=rb"grpc-status[\x01\x02]\d\d?")
    found = re.search(rb"grpc-status([\x01\x02])(\d\d?)", answer)
    return None if found is None else int(found[2][: found[1][0]])


def _tls(address: str) -> str:
    """Return OpenSSL's reason for a refused handshake, 'accepted', or '' without TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # the server answers a missing certificate within the handshake
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS) as connection:
            context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        return "" if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE") else str(error.reason)
    except OSError:
        return ""
    return "accepted"


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _answer(address: str, sent: bytes, seconds: float, until: bytes | None = None) -> bytes:
    host, _, port = address.rpartition(":")
    heard = b""
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS) as connection:
            connection.settimeout(seconds)
            connection.sendall(sent)
            while len(heard) < 65536 and (until is None or not re.search(until, heard)):
                more = connection.recv(65536)
                if not more:
                    break
                heard += more
    except OSError:
        pass  # refused, closed or silent: the stranger keeps the bytes received so far
    return heard


if __name__ == "__main__":
    with ThreadPoolExecutor(8) as aside:
        print(json.dumps(dict(zip(sys.argv[1:], aside.map(tried, sys.argv[1:]), strict=True))))
