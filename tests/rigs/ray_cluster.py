"""Small Ray clusters on this machine, each node a raylet with its own address."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
import ray
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # compiled, without stubs
from ray.actor import ActorHandle
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.drive.ray.cluster.ray_environment import guarded_environment
from aiperf.drive.ray.cluster.started_ray import fewer_daemons

TRIES = 4
GAVE_UP = "timed out during startup"
"""In Ray's own words, which a run passes on."""
Brought = TypeVar("Brought")


def patiently(bring_up: Callable[[], Brought]) -> Brought:
    """Repeat `bring_up` if Ray reached its own time limit. Any other error is raised."""
    for _ in range(TRIES - 1):
        try:
            return bring_up()
        except Exception as error:  # Ray has no own class for it
            if GAVE_UP not in str(error):
                raise
        with warnings.catch_warnings():
            # processes of Ray's failed start have ended but are not reaped: not a fault of the next test
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    return bring_up()


DEAD_IN_SECONDS = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 10,
}
"""Ray notices a killed node after 15 s by default. A node that is delayed for 2 s by load is not dead. (Ray 2.60)"""


@ray.remote(num_cpus=1)
class Filler:
    """Somebody else's work."""

    def ping(self) -> None:
        """Returns once it has its place."""


class SmallCluster:
    """A head without processors, to which hosts are added and from which they are taken."""

    def __init__(self) -> None:
        with fewer_daemons():
            self._cluster = Cluster(
                initialize_head=True,
                head_node_args={
                    "num_cpus": 0,
                    "num_gpus": 0,
                    "node_ip_address": "127.0.0.10",
                    "include_dashboard": False,
                    "_system_config": DEAD_IN_SECONDS,
                },
            )
        self._hosts = 0
        self._nodes: dict[str, Any] = {}
        ray.init(address=self._cluster.address, log_to_driver=False, _node_ip_address="127.0.0.10")

    def add(self, cpus: int = 1, accelerators: int = 0) -> str:
        """Add a host. Return its node's identifier."""
        self._hosts += 1
        address = f"127.0.0.{10 + self._hosts}"
        with fewer_daemons():
            node = self._cluster.add_node(num_cpus=cpus, num_gpus=accelerators, node_ip_address=address)
        self._nodes[node.node_id] = node
        return str(node.node_id)

    @property
    def head(self) -> str:
        """HOST:PORT at which further nodes join."""
        return str(self._cluster.address)

    def address(self, node: str) -> str:
        """Return the address of a host by its node's identifier."""
        return str(self._nodes[node].node_ip_address)

    def fill(self, node: str) -> ActorHandle[Any]:
        """Takes a host's processors, for as long as the answer is kept."""
        here = NodeAffinitySchedulingStrategy(node, soft=False)
        filler: ActorHandle[Any] = Filler.options(scheduling_strategy=here).remote()  # type: ignore[attr-defined]
        placed: Any = filler.ping  # its stub (Ray 2.60) never returns
        ray.get(placed.remote())
        return filler

    def kill(self, node: str) -> None:
        """As a power cut does."""
        self._cluster.remove_node(self._nodes.pop(node), allow_graceful=False)

    def clear(self) -> None:
        """Remove all hosts except the head, and wait until Ray has noticed.

        A removed host stays a place for a while.
        """
        for node in list(self._nodes):
            self._cluster.remove_node(self._nodes.pop(node), allow_graceful=True)
        while sum(each["Alive"] for each in ray.nodes()) > 1:  # type: ignore[no-untyped-call]
            time.sleep(0.05)

    def close(self) -> None:
        """Leaves nothing."""
        # the type of ray.shutdown is NoReturn. (Ray 2.60)
        leave: Callable[[], Any] = ray.shutdown
        leave()
        self._cluster.shutdown()  # type: ignore[no-untyped-call]


@contextmanager
def small_cluster() -> Iterator[SmallCluster]:
    """A cluster that no other Ray of this machine meets: its token is its own, as a run's is, and so is its folder."""
    folder = tempfile.mkdtemp(prefix="r-", dir="/tmp")  # short: a socket's path has 107 bytes
    with pytest.MonkeyPatch.context() as patch:
        for name, value in guarded_environment(os.environ).items():
            patch.setenv(name, value)
        patch.setenv("RAY_TMPDIR", folder)
        # settings of an earlier Ray in this process. (Ray 2.60)
        Config.initialize("")
        AuthenticationTokenLoader.instance().reset_cache()
        try:
            cluster = patiently(SmallCluster)
            try:
                yield cluster
            finally:
                cluster.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
