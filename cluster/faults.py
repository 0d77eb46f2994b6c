"""Configuration of the faults of a simulated cluster: one class per fault, with the limits of each field.

aiperf/simulate/faults.py implements them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from cluster.place import LONGEST_SECONDS


def _share(default: float) -> float:
    return field(default=default, metadata={"least": 0, "most": 1})


def _seconds(default: float) -> float:
    return field(default=default, metadata={"least": 0.001, "most": LONGEST_SECONDS})


def _factor(default: float) -> float:
    return field(default=default, metadata={"least": 0.001, "most": 1_000_000})


@dataclass
class FaultConf:
    """Base class of all faults."""

    kind: str = "???"
    """Name of the fault. It determines the other fields."""


@dataclass
class WorkerLostConf(FaultConf):
    """A worker ends before, during or after a trial. Another worker replaces it."""

    kind: str = "worker_lost"
    rate: float = _share(0.15)
    """Share of attempts."""
    when: str = field(default="any", metadata={"among": ("before", "during", "after", "any")})
    """Time of the loss: before the network is built, during the epochs, after the last epoch, or any of these."""


@dataclass
class WorkerHungConf(FaultConf):
    """A worker stops sending messages without being reported as lost."""

    kind: str = "worker_hung"
    rate: float = _share(0.05)
    """Share of attempts."""


@dataclass
class NodeLostConf(FaultConf):
    """A host fails with all its workers, and returns."""

    kind: str = "node_lost"
    every_seconds: float = _seconds(200.0)
    """Mean interval between failures in the whole cluster."""
    back_seconds: float = _seconds(60.0)
    """Time until its workers are up again."""


@dataclass
class LateJoinConf(FaultConf):
    """Some workers come up long after the others."""

    kind: str = "late_join"
    rate: float = _share(0.3)
    """Share of places for workers."""
    seconds: float = _seconds(120.0)
    """Maximum delay."""


@dataclass
class StragglerConf(FaultConf):
    """Some workers are slow."""

    kind: str = "straggler"
    rate: float = _share(0.25)
    """Share of workers."""
    factor: float = _factor(4.0)
    """Factor on all their durations."""


@dataclass
class CrashConf(FaultConf):
    """An attempt crashes, but its worker continues."""

    kind: str = "crash"
    rate: float = _share(0.1)
    """Share of attempts."""
    final: float = _share(0.2)
    """Share of crashes after which the next attempt must end the same way, since the trial diverged."""


@dataclass
class MemoryRunsOutConf(FaultConf):
    """Memory runs out during an epoch.

    The epoch is repeated with the next smaller batch, or fails at the smallest one.
    """

    kind: str = "memory_runs_out"
    rate: float = _share(0.2)
    """Share of attempts."""


@dataclass
class CheckpointsUnwrittenConf(FaultConf):
    """The disk accepts no checkpoint of an attempt."""

    kind: str = "checkpoints_unwritten"
    rate: float = _share(0.2)
    """Share of attempts."""


@dataclass
class LateConf(FaultConf):
    """Messages are delayed independently, so later messages may overtake them."""

    kind: str = "late"
    rate: float = _share(0.2)
    """Share of messages."""
    seconds: float = _seconds(20.0)
    """Maximum delay."""


AnyFault = (
    WorkerLostConf
    | WorkerHungConf
    | NodeLostConf
    | LateJoinConf
    | StragglerConf
    | CrashConf
    | MemoryRunsOutConf
    | CheckpointsUnwrittenConf
    | LateConf
)
"""Any fault."""
FAULTS: tuple[type[AnyFault], ...] = get_args(AnyFault)
"""All faults, by their kinds."""
