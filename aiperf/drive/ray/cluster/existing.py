"""Use of an existing Ray cluster: this process joins it for the length of a run, and leaves it unchanged.

Ray's autoscaler does not react to workers that are tied to existing nodes. A run therefore requests all its nodes at once.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray._private import services
from ray._private.state import available_resources_per_node
from ray._raylet import GcsClient  # type: ignore[attr-defined]  # compiled, without stubs
from ray.actor import ActorHandle
from ray.core.generated.gcs_pb2 import GcsNodeInfo  # type: ignore[attr-defined]  # likewise
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aiperf.drive.ray.cluster.daemons import Runtime
from aiperf.drive.ray.cluster.head import LOOK_SECONDS, await_nodes
from aiperf.drive.ray.cluster.ray_environment import MODE, TOKEN, TOKEN_PATH, connected
from aiperf.drive.ray.cluster.started_ray import named_if_not_started, read_environment_anew, without_working_folder
from aiperf.drive.ray.slots import Slot, slots
from aiperf.errors import NoWorkers, RuntimeLost, RuntimeNotStarted
from aiperf.files import host_name
from cluster.place import Demand, Existing

_REMEDY = (
    "Run this on the head of that Ray, with its token in RAY_AUTH_TOKEN, or RAY_AUTH_MODE=disabled if it requires none"
)
MOST_NAMED = 8
"""Maximum number of nodes in an error."""
CONNECT_SECONDS, ANSWER_SECONDS, NODE_SECONDS = 2.0, 4.0, 2.0
"""Limits for the connection to Ray's gcs, for its first answer, and until a raylet of this host is listed."""
FIRST_NODE_SECONDS = 30.0
"""Limit until the gcs lists its first node. `ray start` starts the gcs first."""


@contextmanager
def existing_ray(place: Existing) -> Iterator[None]:
    """Join an existing Ray cluster for a `with` block, and wait at its beginning until enough nodes are up."""
    read_environment_anew()
    _check(place.address)
    offence = f"the run could not join the existing Ray at {place.address}"
    with named_if_not_started(offence, _REMEDY):
        ray.init(
            address=place.address, job_config=without_working_folder(), log_to_driver=False, logging_level=logging.ERROR
        )
    try:
        with requested_nodes(place.demand):
            began = time.monotonic()
            await_nodes(place.nodes, place.fewest_nodes, place.patience_seconds)
            _turn = await_free_nodes(place.nodes, place.patience_seconds - (time.monotonic() - began))
            yield
    finally:
        ray.shutdown()


@ray.remote(num_cpus=0)
class _Turn:
    """Held by the run whose turn it is. Ray ends it with the process that holds it."""


def await_free_nodes(number: int, patience_seconds: float) -> ActorHandle[Any]:
    """Wait until `number` nodes that can hold a worker are free, and no other run holds the Ray. A run takes whole nodes.

    The result holds the Ray for this run, as long as it is kept.
    """
    deadline = time.monotonic() + patience_seconds
    here = NodeAffinitySchedulingStrategy(
        ray.get_runtime_context().get_node_id(), soft=False
    )  # not on a node that may go
    while True:
        available = available_resources_per_node()  # type: ignore[no-untyped-call]
        places = slots(ray.nodes(), None).wanted  # type: ignore[no-untyped-call]
        taken = {slot.address: used for slot in places if (used := _used(slot, available.get(slot.node, {})))}
        is_free = len(places) - len(taken) >= min(number, len(places))
        if is_free:
            with suppress(ValueError):  # the name exists
                turn: ActorHandle[Any] = _Turn.options(  # type: ignore[attr-defined]
                    name="turn", namespace="aiperf", scheduling_strategy=here
                ).remote()
                return turn
        if time.monotonic() >= deadline:
            named = "; ".join(f"{address}: {used}" for address, used in sorted(taken.items())[:MOST_NAMED])
            others = "another run holds that Ray" if is_free else f"others use {len(taken)} of {len(places)}"
            raise NoWorkers(
                f"a run takes whole nodes of an existing Ray, and needs {number}, but {others} after "
                f"{max(0.0, patience_seconds):.0f} s ({named or 'it has no worker now'}). End that work "
                "(`ray list actors`), or wait longer: cluster.patience_seconds"
            )
        time.sleep(LOOK_SECONDS)


def _used(slot: Slot, available: Mapping[str, float]) -> str:
    """Return the resources of a place that others use, such as '2 of 8 CPU'. '' if all are free."""
    whole = {"CPU": slot.cores, "GPU": slot.accelerators}
    used = {name: amount - available.get(name, 0.0) for name, amount in whole.items() if amount}
    return ", ".join(f"{taken:g} of {whole[name]} {name}" for name, taken in used.items() if taken > 0)


def _check(address: str) -> None:
    """Raise RuntimeNotStarted with the cause if this process cannot join the Ray at `address`."""
    try:
        given = services.get_ray_address_from_environment("auto", None) if address == "auto" else address
    except ConnectionError as error:
        raise RuntimeNotStarted(
            "cluster.address=auto joins the Ray of this host, and none runs here: name its head, cluster.address=HOST:PORT"
        ) from error
    try:
        connected(given, CONNECT_SECONDS).close()
    except OSError as error:
        raise RuntimeNotStarted(
            f"the run joins an existing Ray, but nothing answers at {given}: {error.strerror or error}. "
            "Set cluster.address to the HOST:PORT of its head, and check that this host can reach it"
        ) from error
    began = time.monotonic()
    # the rule of ray.init
    while set(services.find_node_ids()).isdisjoint(nodes := _nodes(given)):  # type: ignore[no-untyped-call]
        if time.monotonic() >= began + (NODE_SECONDS if nodes else FIRST_NODE_SECONDS):
            listed = ", ".join(sorted(nodes.values())[:MOST_NAMED]) or "it has none"
            raise RuntimeNotStarted(
                f"the run joins the Ray at {given} on one of its nodes, and this host ({host_name()}) is none of "
                f"them: {listed}. Run this on its head, or have this host join it: ray start --address={given}"
            )
        time.sleep(LOOK_SECONDS)


def _nodes(address: str) -> dict[str, str]:
    """Return the living nodes' addresses by Ray's identifier."""

    def ask() -> dict[str, str]:
        nodes = GcsClient(address=address).get_all_node_info(timeout=ANSWER_SECONDS, state_filter=GcsNodeInfo.ALIVE)
        return {node.hex(): node_info.node_manager_address for node, node_info in nodes.items()}

    try:
        return Runtime({}).call(ask, "its list of nodes", ANSWER_SECONDS)
    except RuntimeLost as error:
        raise RuntimeNotStarted(
            f"the run joins an existing Ray, but the server at {address} does not answer as Ray's gcs within "
            f"{ANSWER_SECONDS:.0f} s. Use the port of its head (ray start --port, 6379 by default)"
        ) from error
    except ray.exceptions.AuthenticationError as error:
        mode = os.environ.get(MODE, "disabled").lower()
        offence = "the token given is not its token" if mode == "token" else f"no token was given ({MODE}={mode})"
        raise RuntimeNotStarted(
            f"the Ray at {address} requires a token, and {offence}. Set {MODE}=token, and its token in {TOKEN} or in the file "
            f"that {TOKEN_PATH} names"
        ) from error


@contextmanager
def requested_nodes(demand: Demand | None) -> Iterator[None]:
    """Request nodes from Ray's autoscaler for a `with` block, and withdraw the request at its end."""
    if demand is None:
        yield
        return
    from ray.autoscaler.sdk import request_resources  # which brings the command line of Ray's clusters with it

    # no two of these bundles fit on one node, since each has all resources of a worker
    request_resources(bundles=[dict(demand.each)] * demand.nodes)
    try:
        yield
    finally:
        # Ray's own error is already printed if Ray is lost, and the autoscaler is lost with it
        with suppress(RayError, ConnectionError, TimeoutError):
            request_resources(bundles=[])


def draining_nodes() -> frozenset[str]:
    """Return Ray's identifiers of the nodes that Ray is emptying before they are removed, such as spot nodes. (Ray 2.60)."""
    from ray._private.state import state

    return frozenset(state.get_draining_nodes())
