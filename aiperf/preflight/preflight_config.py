"""The choices a user has about preflight: what is measured, what counts as a fault, and what becomes of a node with one."""

from __future__ import annotations

from dataclasses import dataclass

from aiperf.errors import BadConfiguration

DEPTHS = ("auto", "full", "quick", "none")
BROKEN = ("exclude", "keep", "stop")


@dataclass
class PreflightConf:
    """Checks of every node before the clock starts, and of each that joins later before a worker is started on it."""

    probes: str = "auto"
    """full: all of docs/preflight.md; quick: no torch, no network: versions, data, disk, clock, accelerators, in under
    a second a node; none. auto: full with a cluster, quick on this machine alone."""
    broken: str = "exclude"
    """What becomes of a node with a fault. exclude: no worker of the run is placed on it; keep: it is used as the others, and
    the fault is on record; stop: the run does not begin (one that joins later is excluded)."""
    most_excluded: float = 0.1
    """A run with a larger share of its nodes excluded is outside the ranking."""
    seconds: float = 180.0
    """Limit of each probe on each node: a node that has not answered then is broken. Loading torch on all nodes at once
    from one file server is within it."""
    clock_seconds: float = 1.0
    """A node's clock may be off the head's by so much. What it is off is taken out of its telemetry in any case."""
    free_bytes: int = 2**28
    """To be free in the run's folder and in the temporary one."""
    disk_bytes_per_second: float = 1e6
    """Least rate of writing to the run's folder, fsync(2) included."""
    slow_share: float = 0.8
    """Of the median of three or more nodes with equal hardware: slower in matrix products or memory is a fault."""
    slow_network_share: float = 0.5
    """The same for the best all-reduce of each node with a partner."""

    def check(self) -> None:
        """Raises BadConfiguration, saying law, offence and remedy."""
        if self.probes not in DEPTHS:
            raise BadConfiguration(f"preflight.probes is one of {', '.join(DEPTHS)}; found {self.probes!r}")
        if self.broken not in BROKEN:
            raise BadConfiguration(f"preflight.broken is one of {', '.join(BROKEN)}; found {self.broken!r}")
        for name in ("most_excluded", "slow_share", "slow_network_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadConfiguration(f"preflight.{name} is a share, 0 to 1; found {getattr(self, name)!r}")
        if not self.seconds > 0:
            raise BadConfiguration(f"preflight.seconds is more than 0; found {self.seconds!r}")
        for name in ("clock_seconds", "free_bytes", "disk_bytes_per_second"):
            if getattr(self, name) < 0:
                raise BadConfiguration(f"preflight.{name} is at least 0; found {getattr(self, name)!r}")
