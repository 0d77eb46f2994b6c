"""Networks of links between nodes: diameter, bisection, and the time of an all-reduce by closed forms (α + n/β per message)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from aiperf.errors import BadConfiguration
from cluster.topology import LinkConf, exchange_seconds
from cluster.topology import torus_seconds as seconds_by_dimensions

Kind = Literal["torus", "ring", "tree", "switch"]
FORMS = "torus:XxY, torus:XxYxZ, ring:N, tree:N or switch:N"
LARGEST_EDGE = 1_000_000


@dataclass(frozen=True, slots=True)
class LinkNetwork:
    """A network of nodes and equal links. In a torus, an edge of 2 has two wires and an edge of 1 none."""

    kind: Kind
    edges: tuple[int, ...]
    """Nodes along each dimension. One number for all kinds but the torus."""

    @property
    def nodes(self) -> int:
        return math.prod(self.edges)

    @property
    def _wired(self) -> tuple[int, ...]:
        """Edges of more than one node, the longest first."""
        return tuple(sorted((edge for edge in self.edges if edge > 1), reverse=True))

    @property
    def links(self) -> int:
        """Number of links (wires). Each carries data in both directions."""
        match self.kind:
            case "torus" | "ring":
                return self.nodes * len(self._wired)
            case "tree":
                return self.nodes - 1
            case "switch":
                return self.nodes

    @property
    def diameter(self) -> int:
        """Largest number of links on a shortest path between two nodes."""
        match self.kind:
            case "torus" | "ring":
                return sum(edge // 2 for edge in self.edges)
            case "tree":
                height = self.nodes.bit_length() - 1
                is_right_full = self.nodes >= 3 * 2 ** (height - 1)
                return max(0, 2 * height - (0 if is_right_full else 1))
            case "switch":
                return 2 if self.nodes > 1 else 0

    @property
    def bisection_links(self) -> int | None:
        """Least number of links between two halves of the nodes. None if no closed form is known."""
        if self.nodes == 1:
            return 0
        match self.kind:
            case "switch":
                return self.nodes // 2
            case "tree":
                return 1 if _left_subtree(self.nodes) in {self.nodes // 2, -(-self.nodes // 2)} else None
            case "torus" | "ring":
                return _torus_bisection(self._wired)


def network_of(text: str) -> LinkNetwork:
    """Return the network that a text describes: 'torus:32x32', 'torus:8x8x8', 'ring:N', 'tree:N' or 'switch:N'."""
    match = re.fullmatch(rf"({'|'.join(get_args(Kind))}):(\d+(?:x\d+)*)", text)
    edges = tuple(int(edge) for edge in match[2].split("x")) if match else ()
    if match is None or len(edges) not in ((2, 3) if match[1] == "torus" else (1,)):
        raise BadConfiguration(f"a network is {FORMS}, but found {text!r}: write one of these forms")
    if not all(1 <= edge <= LARGEST_EDGE for edge in edges):
        raise BadConfiguration(
            f"the edges of a network are between 1 and {LARGEST_EDGE}, but found {text!r}: give such edges"
        )
    kind: Kind = match[1]  # type: ignore[assignment]  # the pattern admits the kinds alone
    return LinkNetwork(kind, edges)


def bisection_seconds(network: LinkNetwork, size: float, bytes_per_second: float) -> float | None:
    """Least seconds of an all-reduce: each half of the nodes receives the other's sum. None without a closed form."""
    links = network.bisection_links
    return None if links is None else size / (links * bytes_per_second) if links else 0.0


def links_seconds(network: LinkNetwork, size: float, bytes_per_second: float) -> float:
    """Return the least seconds of an all-reduce on l links of each node: 2(n−1)/n · size/(l·β) (Patarasu and Yuan 2009)."""
    if network.nodes == 1:
        return 0.0
    outgoing = network.links * (1 if network.kind == "switch" else 2)  # nodes send in one direction of a switch's link
    return 2 * (network.nodes - 1) * size / (outgoing * bytes_per_second)


def ring_seconds(network: LinkNetwork, size: float, bytes_per_second: float, alpha: float) -> float:
    """Return the seconds of an all-reduce along a ring through all nodes."""
    ways = 2 if network.kind in ("torus", "ring") else 1
    return exchange_seconds(size, network.nodes, [LinkConf(network.nodes, alpha, ways * bytes_per_second)])


def torus_seconds(network: LinkNetwork, size: float, bytes_per_second: float, alpha: float) -> float | None:
    """Return the seconds of an all-reduce in a torus or ring that proceeds dimension by dimension. None for other networks."""
    if network.kind not in ("torus", "ring"):
        return None
    return seconds_by_dimensions(size, network._wired, LinkConf(0, alpha, bytes_per_second))


def tree_seconds(network: LinkNetwork, size: float, bytes_per_second: float, alpha: float) -> float:
    """Pipelined double binary tree, 2·log₂(n)·α + 2·size/β (Sanders, Speck and Träff 2009)."""
    if network.nodes == 1:
        return 0.0
    return 2 * math.log2(network.nodes) * alpha + 2 * size / bytes_per_second


def as_json(network: LinkNetwork, bytes_per_second: float | None, alpha: float, size: float | None) -> dict[str, Any]:
    """Return the figures of a network as the JSON object of --json: nodes, links, diameter, bisection, all-reduce seconds.

    Figures that need a missing rate or size, or have no closed form, are None.
    """
    links, beta = network.bisection_links, bytes_per_second
    bisection = None if beta is None or links is None else links * beta
    return {
        "nodes": network.nodes,
        "links": network.links,
        "diameter": network.diameter,
        "bisection_links": links,
        "bisection_bytes_per_second": bisection,
        "bisection_bytes_per_second_both_ways": None if bisection is None else 2 * bisection,
        "bytes": size,
        "all_reduce_seconds": None
        if beta is None or size is None
        else {
            "ring": ring_seconds(network, size, beta, alpha),
            "torus": torus_seconds(network, size, beta, alpha),
            "tree": tree_seconds(network, size, beta, alpha),
            "bound_links": links_seconds(network, size, beta),
            "bound_bisection": bisection_seconds(network, size, beta),
        },
    }


def _torus_bisection(edges: tuple[int, ...]) -> int | None:
    """Return the links between the halves of a torus, from its edges above 1, the longest first."""
    if len(edges) == 1:
        return 2
    if len(edges) == 2:
        x, y = edges
        if x % 2 == 0:
            return 2 * y
        return min(2 * x, 2 * y + 2) if y % 2 == 0 else 2 * y + 2
    return 2 * edges[1] * edges[2] if edges[0] % 2 == 0 else None


def _left_subtree(nodes: int) -> int:
    """Return the nodes below the left child of the root, in a binary tree that is filled from the left."""
    last_row = 1 << (nodes.bit_length() - 2)  # its places below the left child
    return last_row - 1 + min(last_row, nodes - (2 * last_row - 1))
