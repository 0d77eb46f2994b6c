"""Options of the simulated faults: one class per fault, with the limits of each field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from cluster.place import LONGEST_SECONDS

SHARE = {"least": 0, "most": 1}
SECONDS = {"least": 0.001, "most": LONGEST_SECONDS}


@dataclass
class FaultConf:
    """Base class of the options of all simulated faults."""

    kind: str = "???"
    """Name of the fault. It determines the other fields."""


@dataclass
class WorkerLostConf(FaultConf):
    """A worker ends before, during or after a trial. Another worker replaces it."""

    kind: str = "worker_lost"
    rate: float = field(default=0.15, metadata=SHARE)
    """Share of attempts."""
    when: str = field(default="any", metadata={"among": ("before", "during", "after", "any")})
    """Time of the loss: before the network is built, during the epochs, after the last epoch, or any of these."""


@dataclass
class WorkerHungConf(FaultConf):
    """A worker stops sending messages without being reported as lost."""

    kind: str = "worker_hung"
    rate: float = field(default=0.05, metadata=SHARE)
    """Share of attempts."""


@dataclass
class NodeLostConf(FaultConf):
    """A host fails with all its workers, and returns."""

    kind: str = "node_lost"
    every_seconds: float = field(default=200.0, metadata=SECONDS)
    """Mean interval between failures in the whole cluster."""
    back_seconds: float = field(default=60.0, metadata=SECONDS)
    """Time until its workers are up again."""


@dataclass
class StragglerConf(FaultConf):
    """Some workers are slow."""

    kind: str = "straggler"
    rate: float = field(default=0.25, metadata=SHARE)
    """Share of workers."""
    factor: float = field(default=4.0, metadata={"least": 0.001, "most": 1_000_000})
    """Factor on all their durations."""


@dataclass
class CrashConf(FaultConf):
    """An attempt crashes, but its worker continues."""

    kind: str = "crash"
    rate: float = field(default=0.1, metadata=SHARE)
    """Share of attempts."""
    final: float = field(default=0.2, metadata=SHARE)
    """Share of crashes after which the next attempt must end the same way, since the trial diverged."""


@dataclass
class MemoryRunsOutConf(FaultConf):
    """Memory runs out during an epoch. The epoch is repeated with the next smaller batch, or fails at the smallest one."""

    kind: str = "memory_runs_out"
    rate: float = field(default=0.2, metadata=SHARE)
    """Share of attempts."""


@dataclass
class CheckpointsUnwrittenConf(FaultConf):
    """The disk accepts no checkpoint of an attempt."""

    kind: str = "checkpoints_unwritten"
    rate: float = field(default=0.2, metadata=SHARE)
    """Share of attempts."""


AnyFault = (
    WorkerLostConf
    | WorkerHungConf
    | NodeLostConf
    | StragglerConf
    | CrashConf
    | MemoryRunsOutConf
    | CheckpointsUnwrittenConf
)
FAULTS: tuple[type[AnyFault], ...] = get_args(AnyFault)
"""Option classes of all faults."""
