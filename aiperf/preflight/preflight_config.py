"""The choices a user has about preflight: what is measured, what counts as a fault, and what becomes of a node with one."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiperf.option_limits import LONGEST_SECONDS, hold

DEPTHS = ("auto", "full", "quick", "none")
BROKEN = ("exclude", "keep", "stop")


@dataclass
class PreflightConf:
    """Checks of every node before the clock starts, and of each that joins later before a worker is started on it."""

    probes: str = field(default="auto", metadata={"among": DEPTHS})
    """full: all of docs/preflight.md; quick: no torch, no network: versions, data, disk, clock, accelerators, in under
    a second a node; none. auto: full with a cluster, quick on this machine alone."""
    broken: str = field(default="exclude", metadata={"among": BROKEN})
    """What becomes of a node with a fault. exclude: no worker of the run is placed on it; keep: it is used as the others, and
    the fault is on record; stop: the run does not begin (one that joins later is excluded)."""
    most_excluded: float = field(default=0.1, metadata={"least": 0, "most": 1})
    """A run with a larger share of its nodes excluded is outside the ranking."""
    seconds: float = field(default=180.0, metadata={"above": 0, "most": LONGEST_SECONDS})
    """Limit of each probe on each node: a node that has not answered then is broken. Loading torch on all nodes at once
    from one file server is within it."""
    clock_seconds: float = field(default=1.0, metadata={"least": 0, "most": LONGEST_SECONDS})
    """A node's clock may be off the head's by so much. What it is off is taken out of its telemetry in any case."""
    free_bytes: int = field(default=2**28, metadata={"least": 0})
    """To be free in the run's folder and in the temporary one."""
    disk_bytes_per_second: float = field(default=1e6, metadata={"least": 0, "most": 1e15})
    """Least rate of writing to the run's folder, fsync(2) included."""
    slow_share: float = field(default=0.8, metadata={"least": 0, "most": 1})
    """Of the median of three or more nodes with equal hardware: slower in matrix products or memory is a fault."""
    slow_network_share: float = field(default=0.5, metadata={"least": 0, "most": 1})
    """The same for the best all-reduce of each node with a partner."""

    def __post_init__(self) -> None:
        hold(self, "preflight")
