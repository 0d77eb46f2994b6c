"""Ray on this machine alone, for one run. No other user can reach it, and it ends with the run.

A process that reaches Ray's ports with its token can run code as the user. The ports are therefore on the loopback interface,
with a certificate and a token made for this run.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from aiperf.drive.ray.cluster.certificates import new_authority, tls_environment
from aiperf.drive.ray.cluster.ray_environment import environment_of_process, ray_folder
from aiperf.drive.ray.cluster.started_ray import assert_token, read_environment_anew, started_ray


@contextmanager
def local_ray() -> Iterator[None]:
    """Start Ray on this machine for a `with` block, independent of other Ray clusters, and end it after the block."""
    with (
        ray_folder(os.environ) as (folder, variables),
        environment_of_process(variables | tls_environment(new_authority(), folder, "127.0.0.1")),
        _on_loopback(),
        fewer_daemons(),
        started_ray(folder),
    ):
        _assert_closed()
        yield


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Let Ray listen on the loopback interface only.

    Even if 127.0.0.1 is given, Ray listens on all addresses unless no other machine can join. (Ray 2.60)
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    read_environment_anew()
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def fewer_daemons() -> Iterator[None]:
    """Let `ray.init` in a `with` block start fewer processes: no dashboard, autoscaler, log monitor or agent servers.

    They take half of Ray's start time. If another release starts them differently, the run only begins later. (Ray 2.60)
    """
    from ray._private import node, services, utils

    with ExitStack() as stack:

        def replaced(owner: Any, name: str, answer: Any) -> None:
            if (before := getattr(owner, name, None)) is not None:
                setattr(owner, name, lambda *_, **__: answer)
                stack.callback(setattr, owner, name, before)

        replaced(services, "start_api_server", (None, None))  # neither address nor process
        replaced(node.Node, "start_monitor", None)
        replaced(node.Node, "start_log_monitor", None)
        replaced(utils, "get_dashboard_dependency_error", ImportError("a run's own Ray has no dashboard"))
        yield


def _assert_closed() -> None:
    """Assert that Ray listens on the loopback interface only and requires a token."""
    import ray

    addresses = [node["NodeManagerAddress"] for node in ray.nodes()]  # type: ignore[no-untyped-call]
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses), f"Ray listens on {addresses}"
    assert_token()
