"""Ray's head for a run on several hosts: started beside the driver, and told to the other nodes by a file in the run's folder.

The file holds the head's address and the token that Ray asks for; nobody but the user can read it, and it goes when the run
does. A node that reads it joins (`join_node.py`), whoever started it: a batch job's step, a job of its own, a person.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import ray

from aiperf.data import hostcache
from aiperf.drive.ray.metrics import require_endpoint
from aiperf.drive.ray.ray_environment import (
    TOKEN,
    TOKEN_PATH,
    compiler_caches,
    environment_of_process,
    guarded_environment,
    metrics_environment,
    ray_scratch,
)
from aiperf.drive.ray.started_ray import assert_token, read_environment_anew, started_ray
from aiperf.errors import NoWorkers
from cluster.place import Head

HEAD = "ray-head.json"
"""The file's name in the run's folder."""
LOOK_SECONDS = 0.2


class HeadAddress(msgspec.Struct, frozen=True):
    """What a node must know to join."""

    address: str
    """HOST:PORT of Ray's gcs."""
    token: str


@contextmanager
def head_ray(folder: Path, place: Head, metrics_port: int | None = None) -> Iterator[None]:
    """Brings the head up, waits for the other nodes, and ends it, whereupon they leave.

    Raises:
        BadConfiguration, RuntimeNotStarted: see `local_cluster.local_ray`.
        NoWorkers: too few nodes have joined in time.
    """
    if metrics_port is not None:
        require_endpoint()
    guarded = guarded_environment(os.environ)
    (folder / HEAD).unlink(missing_ok=True)  # of a driver that was killed
    scratch = ray_scratch(os.environ)
    added = (
        guarded | metrics_environment(metrics_port) | scratch.environment | compiler_caches(os.environ, scratch.path)
    )
    try:
        with environment_of_process(added):
            read_environment_anew()
            address = place.address or own_address()
            options: dict[str, Any] = {} if address is None else {"_node_ip_address": address}
            if not place.trains:
                options |= {"num_cpus": 0, "num_gpus": 0}
            with started_ray(scratch.path, metrics_port, **options), _told(folder / HEAD):
                assert_token()
                await_nodes(place.nodes, place.fewest_nodes, place.patience_seconds)
                yield
    finally:
        scratch.close()
        hostcache.remove_orphans()


def own_address() -> str | None:
    """The address that this host's name stands for, as a cluster's other hosts reach it; None where that is the loopback's:
    Ray then takes the address of the interface that leads outside."""
    try:
        address = socket.gethostbyname(socket.gethostname())
    except OSError:
        return None
    return None if ipaddress.ip_address(address).is_loopback else address


def await_nodes(nodes: int, fewest: int, patience_seconds: float) -> None:
    """Waits until so many nodes are in the Ray that this process is connected to.

    Raises:
        NoWorkers: fewer than `fewest` have joined in time.
    """
    deadline = time.monotonic() + patience_seconds
    while len(there := _alive()) < nodes:
        if time.monotonic() >= deadline:
            if len(there) >= fewest:
                return
            raise NoWorkers(
                f"a run begins when its nodes have joined; found {len(there)} of {nodes} after {patience_seconds:.0f} s "
                f"({', '.join(sorted(there))}). Look at what the others say in their logs, or let the run begin with fewer: "
                "cluster.fewest_nodes"
            )
        time.sleep(LOOK_SECONDS)


def _alive() -> list[str]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [str(node["NodeManagerHostname"]) for node in nodes if node["Alive"]]


@contextmanager
def _told(path: Path) -> Iterator[None]:
    told = HeadAddress(ray.get_runtime_context().gcs_address, _token(os.environ))
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)  # of a driver that was killed just then
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(told))
    draft.replace(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _token(environment: Mapping[str, str]) -> str:
    return environment.get(TOKEN) or Path(environment[TOKEN_PATH]).read_text().strip()
