"""What a run asks of the autoscaler of its Ray: all its nodes at once, whether or not there is one yet that work waits for.

An autoscaler adds nodes for tasks, actors and placement groups that no node can hold. A run's workers are tied to nodes that
are there, so that it would see none of them: this request is what brings the nodes, and what keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ray.exceptions import RayError

from cluster.place import Demand


@contextmanager
def asked_for(demand: Demand | None) -> Iterator[None]:
    """The nodes are asked for as long as the context stands, and may go when it ends. Ray must have been initialised."""
    if demand is None:
        yield
        return
    from ray.autoscaler.sdk import request_resources  # which brings the command line of Ray's clusters with it

    request_resources(bundles=bundles(demand))
    try:
        yield
    finally:
        # its own words stand above where Ray is lost; the autoscaler is lost with it
        with suppress(RayError, ConnectionError, TimeoutError):
            request_resources(bundles=[])


def draining_nodes() -> frozenset[str]:
    """Identifiers of the nodes of which Ray was told that they will go, by a spot node's notice, say. (Ray 2.60)"""
    from ray._private.state import state

    return frozenset(state.get_draining_nodes())


def bundles(demand: Demand) -> list[dict[str, float]]:
    """One for each node. It has all that a worker there takes, so that no two fit on one node."""
    return [dict(demand.each) for _ in range(demand.nodes)]
