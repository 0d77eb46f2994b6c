"""A Ray cluster that is there already: `+cluster=ray cluster.address=…`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cluster.place import (
    LONGEST_SECONDS,
    MOST_NODES,
    MOST_OF_A_NODE,
    Demand,
    Existing,
    NodesAsked,
    NodesConf,
    Place,
    form,
)


@dataclass
class RayConf(NodesConf):
    """A Ray that others have started: the run joins it, and leaves it as it was. Its token is taken from the environment
    (RAY_AUTH_TOKEN, or the file that RAY_AUTH_TOKEN_PATH names). The driver must run on the head."""

    kind: str = "ray"
    address: str = field(
        default="auto",
        metadata=form(
            r"auto|(\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9_.-]+):[1-9][0-9]{0,4}",
            "HOST:PORT of Ray's head, or auto on that host",
        ),
    )
    """HOST:PORT of its head; auto: the Ray of this host."""
    nodes: int = field(default=1, metadata={"least": 1, "most": MOST_NODES})
    """So many nodes are waited for before the run begins; more may come at any time."""
    patience_seconds: float = field(default=300.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """How long."""
    ask_nodes: int = field(default=0, metadata={"least": 0, "most": MOST_NODES})
    """So many nodes are asked of its autoscaler for as long as the run goes on, each with what a worker takes; 0: none."""
    ask_cpus: int = field(default=1, metadata={"least": 1, "most": MOST_OF_A_NODE})
    """Processors of each node that is asked for, all of them."""
    ask_accelerators: int = field(default=0, metadata={"least": 0, "most": MOST_OF_A_NODE})
    """Accelerators of each node that is asked for, all of them."""

    def nodes_asked(self) -> NodesAsked:
        """How many are waited for, and what is asked of the autoscaler; more may come."""
        most = max(self.nodes, self.ask_nodes)
        asked = NodesAsked(nodes=self.nodes, most_nodes=most if most > self.nodes else None)
        of_all = super().nodes_asked()
        return replace(asked, accelerator=of_all.accelerator, accelerator_bytes=of_all.accelerator_bytes)

    def asked_for(self, seconds: float) -> Sequence[tuple[str, str]]:
        """Nothing is asked for: what is there is joined."""
        return [
            (
                "place",
                f"the Ray at {self.address}; {self.nodes} of its nodes are waited for, {self.patience_seconds:g} s",
            )
        ]

    def notes(self) -> list[str]:
        """See `ClusterConf.notes`."""
        return [
            "a Ray that others have started is joined as it is. What a run would set for a Ray of its own is theirs: "
            "interfaces and ports, the token, the dashboard, the endpoint for metrics (metrics_port), the folder of its files "
            "(RAY_TMPDIR), what processors and accelerators each node shows, and RAY_worker_niceness (a run's own has 0, Ray's "
            "default is 15: the ranks give way to whatever else wakes up on their node)",
            f"cluster.nodes={self.nodes} says how many are waited for; none is started",
        ]

    def place(self, environment: Mapping[str, str]) -> Place:
        """That Ray."""
        each = {"CPU": float(self.ask_cpus)} | ({"GPU": float(self.ask_accelerators)} if self.ask_accelerators else {})
        demand = Demand(self.ask_nodes, each) if self.ask_nodes else None
        return Existing(self.address, self.nodes, self.nodes, self.patience_seconds, demand)
