"""Option +cluster=ray: a run on an existing Ray cluster. Example: `+cluster=ray cluster.address=HOST:PORT`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cluster.place import (
    LONGEST_SECONDS,
    MOST_NODES,
    MOST_OF_A_NODE,
    PORT,
    Demand,
    Existing,
    NodesAsked,
    NodesConf,
    Place,
    form,
)


@dataclass
class RayConf(NodesConf):
    """Existing Ray cluster.

    The run joins it, and leaves it unchanged. Its token is read from the environment (RAY_AUTH_TOKEN, or the file that
    RAY_AUTH_TOKEN_PATH names). The driver must run on the head.
    """

    kind: str = "ray"
    address: str = field(
        default="auto",
        metadata=form(
            rf"auto|(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):{PORT}",
            "HOST:PORT of Ray's head with a port from 1 to 65535, or auto on that host",
        ),
    )
    """HOST:PORT of Ray's head. auto: the Ray of this host."""
    nodes: int = field(default=1, metadata={"least": 1, "most": MOST_NODES})
    """Number of nodes with which the run begins. More may join at any time."""
    patience_seconds: float = field(default=300.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Maximum time to wait for these nodes."""
    ask_nodes: int = field(default=0, metadata={"least": 0, "most": MOST_NODES})
    """Number of nodes to request from Ray's autoscaler during the run, each with one worker's resources. 0: no
    request."""
    ask_cpus: int = field(default=1, metadata={"least": 1, "most": MOST_OF_A_NODE})
    """Processors of each requested node, all of them."""
    ask_accelerators: int = field(default=0, metadata={"least": 0, "most": MOST_OF_A_NODE})
    """Accelerators of each requested node, all of them."""

    def requested_nodes(self) -> NodesAsked:
        most = self.ask_nodes if self.ask_nodes > self.nodes else None
        return replace(super().requested_nodes(), nodes=self.nodes, most_nodes=most)

    def requested_resources(self, seconds: float) -> Sequence[tuple[str, str]]:
        nodes = f"{self.nodes} of its nodes are waited for, {self.patience_seconds:g} s"
        return [("place", f"the Ray at {self.address}; {nodes}")]

    def place(self, environment: Mapping[str, str]) -> Place:
        """Return the existing Ray cluster to join, and the nodes to request from its autoscaler. `environment`: not used."""
        each = {"CPU": float(self.ask_cpus)} | ({"GPU": float(self.ask_accelerators)} if self.ask_accelerators else {})
        demand = Demand(self.ask_nodes, each) if self.ask_nodes else None
        return Existing(self.address, self.nodes, self.nodes, self.patience_seconds, demand)
