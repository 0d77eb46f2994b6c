"""A Ray of this machine alone, for one run: nobody else can use it, and it goes with the run.

Whoever reaches Ray's ports and may speak to them runs code as the user of the run. So the ports are those of the loopback
interface, and ask for a token that is made for this run. Its folder is the user's alone, and never outlives the run.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiperf.data import hostcache
from aiperf.errors import BadConfiguration, RuntimeNotStarted
from aiperf.scratch import PREFIX, Scratch
from aiperf.system.control_groups import usable_processors

MODE, TOKEN, TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
PARENT_BYTES = 107 - len(f"/{PREFIX}12345678/r/session_2026-11-22_00-00-00_000000_4194304/sockets/plasma_store")
"""The longest path of a temporary folder with which Ray's sockets in it stay within what unix(7) allows."""


@contextmanager
def local_ray() -> Iterator[None]:
    """Brings it up, whatever other Ray runs on this machine, and ends it.

    Raises:
        BadConfiguration: the environment asks for a Ray without a token, or for a folder too deep for sockets.
        RuntimeNotStarted: Ray did not come up; nothing of it is left.
    """
    guarded = guarded_environment(os.environ)
    scratch = Scratch(ray_parent(os.environ), hostcache.pattern())
    try:
        with _environment(guarded | scratch.environment | compiler_caches(os.environ, scratch.path)):
            import ray

            from aiperf.drive.ray.daemons import Runtime

            with _without_last_words():
                with _on_loopback(), _named_if_not_started():
                    ray.init(
                        address="local",
                        include_dashboard=False,
                        log_to_driver=False,
                        logging_level=logging.ERROR,
                        num_cpus=usable_processors(),
                        # a folder in ours: Ray opens its own to everybody (mode 0777), sockets and all
                        _temp_dir=str(scratch.path / "r"),
                        # Ray's own 15 would have the ranks give way to whatever else wakes up on the machine. (Ray 2.60)
                        _system_config={"worker_niceness": 0},
                    )
                try:
                    _assert_closed()
                    yield
                finally:
                    Runtime.of_this_process().kill_if_lost()
                    ray.shutdown()
    finally:
        scratch.close()
        hostcache.remove_orphans()  # of ranks that were killed


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


@contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
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


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Ray takes the host's outer address even where 127.0.0.1 is asked for, and then listens on all addresses; it takes the
    loopback's, and listens there alone, where it knows that no other machine is to join: its own default on macOS and Windows.
    It also reads the environment once a process, though tests bring it up more than once. (Ray 2.60)
    """
    from ray._private import ray_constants
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # compiled, without stubs

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _named_if_not_started() -> Iterator[None]:
    """Ray raises whatever comes, a bare Exception when its own 30 s are over, and leaves what it has started. (Ray 2.60)"""
    import ray

    try:
        yield
    except Exception as error:
        ray.shutdown()
        why = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        raise RuntimeNotStarted(
            f"a run needs Ray on this machine, and it did not come up: {why}. It gives itself 30 s to start: look whether the "
            "machine is overloaded, out of memory or out of processes (ulimit -u), and run it again"
        ) from error


@contextmanager
def _without_last_words() -> Iterator[None]:
    """What Ray pushes to a driver's output is shown, but for the end of a dead raylet's log: `Runtime` says what died."""
    from ray._private import worker

    show = worker.print_to_stdstream

    def shown(data: Any, ignore_prefix: bool) -> None:
        if not any(line.startswith("Raylet is terminated") for line in data["lines"]):
            show(data, ignore_prefix)

    worker.print_to_stdstream = shown
    try:
        yield
    finally:
        worker.print_to_stdstream = show


def _assert_closed() -> None:
    """Another release of Ray may do otherwise than the one that this was written for: then nothing runs on it."""
    import ray
    from ray._raylet import AuthenticationMode, get_authentication_mode  # type: ignore[attr-defined]  # likewise

    addresses = [node["NodeManagerAddress"] for node in ray.nodes()]  # type: ignore[no-untyped-call]
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses), f"Ray listens on {addresses}"
    assert get_authentication_mode() == AuthenticationMode.TOKEN, "Ray asks for no token"
