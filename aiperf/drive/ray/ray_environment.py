"""The environment in which Ray runs, here and on nodes that join: it asks for a token, and keeps its files in one folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aiperf.data import hostcache
from aiperf.errors import BadConfiguration
from aiperf.scratch import PREFIX, Scratch

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
PARENT_BYTES = 107 - len(f"/{PREFIX}12345678/r/session_2026-11-22_00-00-00_000000_4194304/sockets/plasma_store")
"""The longest path of a temporary folder with which Ray's sockets in it stay within what unix(7) allows."""


def guarded_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What is added to an environment so that Ray, and all that it starts, asks for a token. A user's own token is kept.

    Raises:
        BadConfiguration: the environment asks for a Ray without one.
    """
    mode = environment.get(MODE)
    if mode is not None and mode.lower() != "token":
        raise BadConfiguration(
            "a run's Ray must ask for a token: without one, whoever reaches its ports runs code as you; "
            f"found {MODE}={mode!r}. Unset it: each run then makes a token of its own"
        )
    chosen = {MODE: "token", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    if not any(environment.get(name, "").strip() for name in (TOKEN, TOKEN_PATH)):
        chosen[TOKEN] = secrets.token_hex(32)
    kept = ("RAY_USAGE_STATS_ENABLED", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO")
    return chosen | {name: environment[name] for name in kept if name in environment}


def metrics_environment(metrics_port: int | None) -> dict[str, str]:
    """Whether a node's agent opens an endpoint for metrics, which asks for no token (Ray 2.60). Ray would, on any port."""
    return {"RAY_enable_metrics_collection": "0" if metrics_port is None else "1"}


def compiler_caches(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Where torch.compile and Triton keep what they compile: with the run, unless the user has named a place.

    Theirs outlive a run, so that the second of two equal runs would compile less than the first.
    """
    caches = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    return {name: str(folder / slot) for name, slot in caches.items() if not environment.get(name)}


def ray_parent(environment: Mapping[str, str]) -> Path:
    """Where Ray's folder is made: RAY_TMPDIR, else /tmp, as Ray has it; a batch system's TMPDIR is mostly too deep.

    Raises:
        BadConfiguration: sockets in it would have names that are too long.
    """
    parent = environment.get("RAY_TMPDIR") or "/tmp"
    if len(os.fsencode(parent)) > PARENT_BYTES:
        raise BadConfiguration(
            f"Ray's sockets lie in RAY_TMPDIR, whose path must be short: at most {PARENT_BYTES} bytes; "
            f"found {parent!r}. Choose another, or unset it: /tmp is taken then"
        )
    return Path(parent)


def ray_scratch(environment: Mapping[str, str]) -> Scratch:
    """The folder in which this process's Ray keeps its files; with it goes what killed ranks have left in shared memory.

    Raises:
        BadConfiguration: it cannot be made where the environment has it.
    """
    parent = ray_parent(environment)
    try:
        return Scratch(parent, hostcache.pattern())
    except OSError as error:
        if not Path(os.fsdecode(error.filename or "")).is_relative_to(parent):
            raise
        raise BadConfiguration(
            "Ray's folder is made in RAY_TMPDIR, or in /tmp where that is unset: a directory that is there, has room, and "
            f"that this user may write in; found '{parent}': {error.strerror}. Make it so, choose another, or unset RAY_TMPDIR"
        ) from error


@contextmanager
def environment_of_process(added: Mapping[str, str]) -> Iterator[None]:
    """This process's environment has these besides for as long as the context stands."""
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
