"""Request to the autoscaler of Ray for all nodes of a run at once, independent of waiting work.

An autoscaler adds nodes for tasks, actors and placement groups that no node can hold. A run's workers are tied to
existing nodes, so the autoscaler would not see them. This request adds the nodes and keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ray.exceptions import RayError

from cluster.place import Demand


@contextmanager
def asked_for(demand: Demand | None) -> Iterator[None]:
    """Request the nodes until the end of the context. Ray must be initialized."""
    if demand is None:
        yield
        return
    from ray.autoscaler.sdk import request_resources  # which brings the command line of Ray's clusters with it

    request_resources(bundles=bundles(demand))
    try:
        yield
    finally:
        # Ray's own error is already printed if Ray is lost, and the autoscaler is lost with it
        with suppress(RayError, ConnectionError, TimeoutError):
            request_resources(bundles=[])


def draining_nodes() -> frozenset[str]:
    """Return the identifiers of nodes that Ray is draining, for example after a spot node's notice. (Ray 2.60)."""
    from ray._private.state import state

    return frozenset(state.get_draining_nodes())


def bundles(demand: Demand) -> list[dict[str, float]]:
    """Return one bundle per node. It has all resources of a worker, so that no two bundles fit on one node."""
    return [dict(demand.each) for _ in range(demand.nodes)]
