"""Environment variables and folders for Ray on this host. Ray then requires a token, and keeps all files in one folder."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aiperf.errors import BadConfiguration, RuntimeNotStarted
from aiperf.scratch import PREFIX, Scratch, compiler_caches

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
PARENT_BYTES = 107 - len(f"/{PREFIX}12345678/r/session_2026-11-22_00-00-00_000000_4194304/sockets/plasma_store")
"""Maximum length of a temporary folder's path. Ray's socket names below it must fit the limit of unix(7)."""


def guarded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables by which Ray and its processes require a token."""
    mode = environment.get(MODE)
    if mode is not None and mode.lower() != "token":
        raise BadConfiguration(
            f"a run's Ray must require a token, since a process that reaches its ports could run code as you, but {MODE} "
            f"is {mode!r}. Unset it, and each run makes its own token"
        )
    defaults = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "GRPC_VERBOSITY": "NONE",  # each stranger that TLS refuses would be a line in the driver's output
    }
    chosen = {MODE: "token"} | {name: environment.get(name, value) for name, value in defaults.items()}
    if not any(environment.get(name, "").strip() for name in (TOKEN, TOKEN_PATH)):
        chosen[TOKEN] = secrets.token_hex(32)
    return chosen


def ray_parent(environment: Mapping[str, str]) -> Path:
    """Return the folder in which Ray's folder is made: RAY_TMPDIR in `environment`, or /tmp."""
    parent = environment.get("RAY_TMPDIR") or "/tmp"
    if len(os.fsencode(parent)) > PARENT_BYTES:
        raise BadConfiguration(
            f"RAY_TMPDIR contains Ray's sockets, so its path must have at most {PARENT_BYTES} bytes, but it is {parent!r}. "
            "Choose a shorter path, or unset it to use /tmp"
        )
    return Path(parent)


@contextmanager
def ray_folder(environment: Mapping[str, str]) -> Iterator[tuple[Path, dict[str, str]]]:
    """Create a folder for Ray's files for a `with` block. After the block the folder is removed."""
    guarded, parent = guarded_environment(environment), ray_parent(environment)
    _require_loopback()
    try:
        scratch = Scratch(parent)
    except OSError as error:
        if not Path(os.fsdecode(error.filename or "")).is_relative_to(parent):
            raise
        raise BadConfiguration(
            "Ray's folder is made in RAY_TMPDIR (default: /tmp), which must be an existing, writable directory with free "
            f"space. '{parent}': {error.strerror}. Choose another directory, or unset RAY_TMPDIR"
        ) from error
    # without a token, and Ray would open it on any port of a node's agent (Ray 2.60)
    closed = {"RAY_enable_metrics_collection": "0"}
    try:
        yield scratch.path, guarded | closed | scratch.environment | compiler_caches(environment, scratch.path)
    finally:
        scratch.close()


def _require_loopback() -> None:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), timeout=2.0).close()
    except OSError as error:
        raise RuntimeNotStarted(
            f"Ray's processes on a host meet at 127.0.0.1, which cannot be reached: {error.strerror or error}. Bring the "
            "loopback interface up: ip link set lo up"
        ) from error


def connected(address: str, seconds: float) -> socket.socket:
    """Connect to the TCP port at HOST:PORT within `seconds`. Raise OSError if nothing answers."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=seconds)


@contextmanager
def environment_of_process(added: Mapping[str, str]) -> Iterator[None]:
    """Set the variables in `added` in this process's environment for a `with` block. Restore the former values after it."""
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
