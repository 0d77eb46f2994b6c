"""The choices a user has about where to run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ClusterConf:
    """What all places have in common."""

    kind: str = "???"
    """Which kind of place; set by the choice of the group."""


@dataclass
class SimulatedConf(ClusterConf):
    """No machines at all: workers under a virtual clock, with invented learning curves. Never ranked."""

    kind: str = "simulated"
    workers: int = 8
    """Workers."""
    accelerators: int = 8
    """Accelerators of each."""
    faults: list[str] = field(default_factory=list)
    """Faults to inject: see docs/simulation.md."""
    profile: str | None = None
    """Take step times, start-up and gap times and failures from this run's journal."""
