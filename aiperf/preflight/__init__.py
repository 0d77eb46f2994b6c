"""Preflight: checks of each node before training processes may run on it, and its options."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiperf.option_limits import LONGEST_SECONDS, hold

DEPTHS = ("auto", "full", "quick", "none")
BROKEN = ("exclude", "keep", "stop")


@dataclass
class PreflightConf:
    """Checks of every node before the run starts, and of each later node before a worker starts on it."""

    probes: str = field(default="auto", metadata={"among": DEPTHS})
    """full: all probes of docs/preflight.md. quick: without torch and network (versions, data, disk, clock, accelerators),
    under a second per node. `none` measures nothing. auto: full with a cluster, quick on this machine alone."""
    broken: str = field(default="exclude", metadata={"among": BROKEN})
    """Treatment of a node with a fault. exclude: no worker of the run is placed on it. keep: it is used, and the fault is
    recorded. stop: the run does not begin (a later node is excluded)."""
    most_excluded: float = field(default=0.1, metadata={"least": 0, "most": 1})
    """Largest share of excluded nodes in a run for the ranking."""
    seconds: float = field(default=180.0, metadata={"above": 0, "most": LONGEST_SECONDS})
    """Time limit of each probe on each node. A node without an answer by then counts as broken. The limit includes loading
    torch on all nodes at once from one file server."""
    clock_seconds: float = field(default=1.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """Largest allowed clock difference to the head. Telemetry is corrected by the difference in any case."""
    free_bytes: int = field(default=2**28, metadata={"least": 0})
    """Required free bytes in the run's folder and in the temporary folder."""
    disk_bytes_per_second: float = field(default=1e6, metadata={"least": 0, "most": 1e15})
    """Lowest rate of writing to the run's folder, including fsync(2)."""
    slow_share: float = field(default=0.8, metadata={"least": 0, "most": 1})
    """Lowest speed of matrix multiplication and memory, relative to the median of three or more nodes with equal hardware."""
    slow_network_share: float = field(default=0.5, metadata={"least": 0, "most": 1})
    """Lowest speed of each node's best all-reduce with a partner, relative to the same median."""

    def __post_init__(self) -> None:
        hold(self, "preflight")
