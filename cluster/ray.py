"""A Ray cluster that is there already: `+cluster=ray cluster.address=…`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.place import ClusterConf, Existing, Place


@dataclass
class RayConf(ClusterConf):
    """A Ray that others have started: the run joins it, and leaves it as it was. Its token is taken from the environment
    (RAY_AUTH_TOKEN, or the file that RAY_AUTH_TOKEN_PATH names). The driver must run on the head."""

    kind: str = "ray"
    address: str = "auto"
    """HOST:PORT of its head; auto: the Ray of this host."""
    nodes: int = 1
    """So many nodes are waited for before the run begins; more may come at any time."""
    patience_seconds: float = 300.0
    """How long."""

    def check(self) -> None:
        """See `ClusterConf.check`."""
        if self.nodes < 1:
            raise ValueError(f"cluster.nodes is at least 1; found {self.nodes}")
        if not self.address:
            raise ValueError("cluster.address is HOST:PORT of Ray's head, or auto on that host; found none")

    def place(self, environment: Mapping[str, str]) -> Place:
        """That Ray."""
        return Existing(self.address, self.nodes, self.nodes, self.patience_seconds)
