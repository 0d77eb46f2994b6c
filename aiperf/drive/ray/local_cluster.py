"""A Ray of this machine alone, for one run: nobody else can use it, and it goes with the run.

Whoever reaches Ray's ports and may speak to them runs code as the user of the run. So the ports are those of the loopback
interface, and ask for a token that is made for this run. Its folder is the user's alone, and never outlives the run.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager

from aiperf.data import hostcache
from aiperf.drive.ray.fewer_daemons import fewer_daemons
from aiperf.drive.ray.metrics import require_endpoint
from aiperf.drive.ray.ray_environment import (
    compiler_caches,
    environment_of_process,
    guarded_environment,
    metrics_environment,
    ray_scratch,
)
from aiperf.drive.ray.started_ray import assert_token, read_environment_anew, started_ray


@contextmanager
def local_ray(metrics_port: int | None = None) -> Iterator[None]:
    """Brings it up, whatever other Ray runs on this machine, and ends it.

    Raises:
        BadConfiguration: the environment asks for a Ray without a token, or for a folder that cannot be made or is
            too deep for sockets.
        RuntimeNotStarted: Ray did not come up; nothing of it is left.
    """
    if metrics_port is not None:
        require_endpoint()
    guarded = guarded_environment(os.environ)
    scratch = ray_scratch(os.environ)
    added = (
        guarded | metrics_environment(metrics_port) | scratch.environment | compiler_caches(os.environ, scratch.path)
    )
    try:
        with (
            environment_of_process(added),
            _on_loopback(),
            fewer_daemons(has_endpoint=metrics_port is not None),
            started_ray(scratch.path, metrics_port),
        ):
            _assert_closed()
            yield
    finally:
        scratch.close()
        hostcache.remove_orphans()  # of ranks that were killed


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Ray takes the host's outer address even where 127.0.0.1 is asked for, and then listens on all addresses; it takes the
    loopback's, and listens there alone, where it knows that no other machine is to join: its own default on macOS and Windows.
    (Ray 2.60)
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    read_environment_anew()
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _assert_closed() -> None:
    """Another release of Ray may do otherwise than the one that this was written for: then nothing runs on it."""
    import ray

    addresses = [node["NodeManagerAddress"] for node in ray.nodes()]  # type: ignore[no-untyped-call]
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses), f"Ray listens on {addresses}"
    assert_token()
