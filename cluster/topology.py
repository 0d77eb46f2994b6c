"""Time of an all-reduce (sum over all accelerators) in simulated networks, from latency and bandwidth of the links.

The α–β model: a message of n bytes takes α + n/β.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from cluster.place import LONGEST_SECONDS

Topology = Literal["layers", "torus", "switch"]
"""Networks of simulated accelerators. 'layers': one ring on each layer of links."""


@dataclass
class LinkConf:
    """One layer of the links between a worker's accelerators."""

    width: int = field(default=8, metadata={"least": 0, "most": 1_000_000})
    """Number of groups of the layer below that this layer joins. The last layer joins all remaining groups."""
    latency_seconds: float = field(default=5e-6, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Latency α of one message."""
    bytes_per_second: float = field(default=100e9, metadata={"least": 1, "most": 1e18})
    """Bandwidth β of one accelerator in one direction."""


def exchange_seconds(size: float, ranks: int, links: Sequence[LinkConf]) -> float:
    """Return the seconds of an all-reduce of `size` bytes by `ranks` accelerators over layers of links.

    `links`: layers of links, the nearest first. A ring runs on each layer, on the part of the data that the layer below
    left.

    A ring of n takes 2·(n−1) messages of size/n: 2·(n−1)·α + 2·(n−1)/n · size/β (Thakur, Rabenseifner and Gropp 2005,
    section 4.4. The bound is from Patarasu and Yuan 2009). After the scatter of one layer each rank carries size/n into the
    next.

    >>> round(exchange_seconds(1e9, 4, [LinkConf(4, 1e-5, 100e9)]), 6)
    0.01506
    """
    seconds, left = 0.0, ranks
    for layer, link in enumerate(links):
        is_last = layer == len(links) - 1
        width = left if is_last else min(left, link.width)
        if width > 1:
            seconds += 2 * (width - 1) * link.latency_seconds + 2 * (width - 1) / width * size / link.bytes_per_second
            size /= width
            left = -(-left // width)
    return seconds


def torus_seconds(size: float, edges: Sequence[int], link: LinkConf) -> float:
    """Return the seconds of an all-reduce of `size` bytes on a torus of accelerators.

    `edges`: number of accelerators along each dimension. `link`: latency and bandwidth of each link.

    The data has one part per dimension, and each part starts along another axis. At each axis a ring scatters sums over
    both of its directions, and after the last axis the rings gather in the opposite sequence. Each step waits for its
    slowest part.

    >>> round(1e3 * torus_seconds(102_228_128, [16, 16], LinkConf(0, 0.0, 62e9)), 3)
    0.821
    """
    wired = [edge for edge in edges if edge > 1]
    seconds = 0.0
    for step in range(len(wired)):
        parts = []
        for start in range(len(wired)):
            order = wired[start:] + wired[:start]
            left = size / len(wired) / math.prod(order[:step])
            parts.append((order[step] - 1) * (link.latency_seconds + left / (order[step] * 2 * link.bytes_per_second)))
        seconds += 2 * max(parts)
    return seconds
