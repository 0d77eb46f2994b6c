"""Ray's head process for a run on several hosts, and the file with its address, token and key, by which others join."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import ray
from ray._private import services

from aiperf.atomic_files import replace_file
from aiperf.drive.ray.cluster.ray_environment import (
    TOKEN,
    TOKEN_PATH,
    Authority,
    environment_of_process,
    new_authority,
    ray_folder,
    tls_environment,
)
from aiperf.drive.ray.cluster.started_ray import assert_token, read_environment_anew, started_ray
from aiperf.errors import NoWorkers, RuntimeNotStarted
from aiperf.own_files import NotOwn, read_own
from aiperf.scratch import marked
from cluster.place import HEAD_FILE, HeadPlace

LOOK_SECONDS = 0.2
GIVE_UP_SECONDS = (30.0, 120.0)
"""Duration of a start that Ray gives up after its own limit of 30 s, with its imports and its end (Ray 2.60, without an
option)."""


class HeadAddress(msgspec.Struct, frozen=True):
    """Address, token and certificate authority with which another host joins the Ray cluster of a run."""

    address: str
    """HOST:PORT of Ray's gcs."""
    token: str
    authority: Authority


@contextmanager
def head_ray(folder: Path, place: HeadPlace) -> Iterator[None]:
    """Start Ray's head on this host for a `with` block, and wait until the other nodes have joined."""
    (folder / HEAD_FILE).unlink(missing_ok=True)  # of a driver that was killed
    authority, address = new_authority(), place.address or own_address()
    address = services.resolve_ip_for_localhost(address or "localhost")  # the rule of ray.init (Ray 2.60)
    options: dict[str, Any] = {"_node_ip_address": address} | ({} if place.trains else {"num_cpus": 0, "num_gpus": 0})
    with (
        ray_folder(os.environ) as (own, variables),
        environment_of_process(variables | tls_environment(authority, own, address)),
    ):
        read_environment_anew()
        with _started(own, place.patience_seconds, options), _published_address(folder / HEAD_FILE, authority):
            assert_token()
            await_nodes(place.nodes, place.fewest_nodes, place.patience_seconds)
            yield


@contextmanager
def _started(folder: Path, patience_seconds: float, options: Mapping[str, Any]) -> Iterator[None]:
    """Start Ray's head, again if Ray gave up: a slow first node must not cost the allocation."""
    deadline = time.monotonic() + patience_seconds
    with ExitStack() as stack:
        while True:
            began = time.monotonic()
            try:
                stack.enter_context(started_ray(folder, **options))
                break
            except RuntimeNotStarted:
                took = time.monotonic() - began
                if not GIVE_UP_SECONDS[0] <= took <= GIVE_UP_SECONDS[1] or time.monotonic() >= deadline:
                    raise
                for pid in marked(folder):  # gcs and raylet of the attempt may still run
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                print(f"Ray's head did not come up in {took:.0f} s: it is started again", file=sys.stderr, flush=True)
        yield


def own_address() -> str | None:
    """Return the IP address that belongs to this host's name. None if the name has no IPv4 address or a loopback address."""
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        return None
    return None if ipaddress.ip_address(address).is_loopback else address


def await_nodes(nodes: int, fewest: int, patience_seconds: float) -> None:
    """Wait until `nodes` nodes are in the Ray cluster, or `patience_seconds` have passed and `fewest` nodes are in it."""
    deadline = time.monotonic() + patience_seconds
    while len(alive := _alive()) < nodes:
        if time.monotonic() >= deadline:
            if len(alive) >= fewest:
                return
            raise NoWorkers(
                f"a run begins when its nodes have joined, but {len(alive)} of {nodes} have joined after "
                f"{patience_seconds:.0f} s ({', '.join(sorted(alive))}). Read the logs of the others, or begin with fewer "
                "nodes: cluster.fewest_nodes"
            )
        time.sleep(LOOK_SECONDS)


def _alive() -> list[str]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [str(node["NodeManagerHostname"]) for node in nodes if node["Alive"]]


@contextmanager
def _published_address(path: Path, authority: Authority) -> Iterator[None]:
    token = os.environ.get(TOKEN) or Path(os.environ[TOKEN_PATH]).read_text().strip()
    head = HeadAddress(ray.get_runtime_context().gcs_address, token, authority)
    replace_file(path, msgspec.json.encode(head), 0o600)
    try:
        yield
    finally:
        with suppress(NotOwn):
            if read_head(path) == head:  # a driver that took the run over has replaced it
                path.unlink(missing_ok=True)


def read_head(path: Path) -> HeadAddress | None:
    """Return the address and secrets of a run's Ray from its file `path` in the run's folder. None if it does not exist."""
    try:
        return msgspec.json.decode(read_own(path), type=HeadAddress)
    except FileNotFoundError:
        return None
