"""What may go wrong in a simulated cluster, as it is configured: a class a fault, with the limits of each of its fields.

What a fault then does is no matter of configuration: aiperf/simulate/faults/ builds one of each of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import get_args

from cluster.place import LONGEST_SECONDS


def _share(default: float) -> float:
    return field(default=default, metadata={"least": 0, "most": 1})


def _seconds(default: float) -> float:
    return field(default=default, metadata={"least": 0.001, "most": LONGEST_SECONDS})


def _factor(default: float) -> float:
    return field(default=default, metadata={"least": 0.001, "most": 1_000_000})


def _one_of(default: str, *others: str) -> str:
    return field(default=default, metadata={"among": (*others, default)})


@dataclass
class FaultConf:
    """What all faults have in common."""

    kind: str = "???"
    """Which fault; it decides which other fields there are."""

    def __str__(self) -> str:
        """As it is written on a command line, with what differs from the defaults."""
        chosen = {each.name: getattr(self, each.name) for each in fields(self)}
        usual = {each.name: each.default for each in fields(self)}
        named = [f"{name}: {value}" for name, value in chosen.items() if name == "kind" or value != usual[name]]
        return f"{{{', '.join(named)}}}"


@dataclass
class WorkerLostConf(FaultConf):
    """A worker ends before, during or after a trial; another comes up in its place."""

    kind: str = "worker_lost"
    rate: float = _share(0.15)
    """Of all attempts."""
    when: str = _one_of("any", "before", "during", "after")
    """Before its module stands, during its epochs, after the last of them, or at any of these times."""


@dataclass
class WorkerHungConf(FaultConf):
    """A worker falls silent, without a word of it from anybody."""

    kind: str = "worker_hung"
    rate: float = _share(0.05)
    """Of all attempts."""


@dataclass
class IdleWorkerHungConf(FaultConf):
    """A worker comes up and never says another word."""

    kind: str = "idle_worker_hung"
    rate: float = _share(0.1)
    """Of all workers."""


@dataclass
class NodeLostConf(FaultConf):
    """A host goes down with all its workers, and comes back."""

    kind: str = "node_lost"
    every_seconds: float = _seconds(200.0)
    """On average, somewhere in the cluster."""
    back_seconds: float = _seconds(60.0)
    """Until its workers come up again."""


@dataclass
class LateJoinConf(FaultConf):
    """Some workers come up long after the others."""

    kind: str = "late_join"
    rate: float = _share(0.3)
    """Of all slots for workers."""
    seconds: float = _seconds(120.0)
    """At most."""


@dataclass
class FlapConf(FaultConf):
    """Some workers keep going and coming back."""

    kind: str = "flap"
    rate: float = _share(0.2)
    """Of all workers."""
    up_seconds: float = _seconds(60.0)
    """On average."""
    away_seconds: float = _seconds(15.0)
    """Until another comes up in its place."""


@dataclass
class AllGoneConf(FaultConf):
    """All workers go at once, and nobody comes up for a while."""

    kind: str = "all_gone"
    at_seconds: float = _seconds(150.0)
    """Since the run began."""
    seconds: float = _seconds(90.0)
    """Until workers come up again."""


@dataclass
class StragglerConf(FaultConf):
    """Some workers are slow."""

    kind: str = "straggler"
    rate: float = _share(0.25)
    """Of all workers."""
    factor: float = _factor(4.0)
    """How much longer everything takes them."""


@dataclass
class WrongClockConf(FaultConf):
    """Some workers' clocks run fast or slow."""

    kind: str = "wrong_clock"
    rate: float = _share(0.4)
    """Of all workers."""
    factor: float = _factor(3.0)
    """At most so many times too fast, or too slow."""


@dataclass
class CrashConf(FaultConf):
    """An attempt crashes, and its worker lives on."""

    kind: str = "crash"
    rate: float = _share(0.1)
    """Of all attempts."""
    final: float = _share(0.2)
    """Share of crashes after which another attempt must end the same way: the trial diverged."""


@dataclass
class MemoryRunsOutConf(FaultConf):
    """Memory runs out in the midst of an epoch: it begins again with the next smaller batch, or fails where there is none."""

    kind: str = "memory_runs_out"
    rate: float = _share(0.2)
    """Of all attempts."""


@dataclass
class CheckpointsVanishConf(FaultConf):
    """Checkpoints of a trial disappear from the folder when somebody is about to need them."""

    kind: str = "checkpoints_vanish"
    rate: float = _share(0.1)
    """Of all orders to train."""


@dataclass
class CheckpointsUnwrittenConf(FaultConf):
    """The disk takes none of an attempt's checkpoints."""

    kind: str = "checkpoints_unwritten"
    rate: float = _share(0.2)
    """Of all attempts."""


@dataclass
class LateConf(FaultConf):
    """Words are held up, each for itself: those sent later may overtake them."""

    kind: str = "late"
    rate: float = _share(0.2)
    """Of all words."""
    seconds: float = _seconds(20.0)
    """At most."""


@dataclass
class TwiceConf(FaultConf):
    """Words arrive twice."""

    kind: str = "twice"
    rate: float = _share(0.2)
    """Of all words."""
    apart_seconds: float = _seconds(10.0)
    """At most."""


@dataclass
class OutOfOrderConf(FaultConf):
    """Words swap places with those sent shortly after them."""

    kind: str = "out_of_order"
    rate: float = _share(0.3)
    """Of all words."""
    seconds: float = _seconds(0.5)
    """At most."""


@dataclass
class NeverConf(FaultConf):
    """Words are lost; but for those with which the executor itself tells that a worker is up or gone."""

    kind: str = "never"
    rate: float = _share(0.03)
    """Of all words."""


@dataclass
class GeneratorDeadConf(FaultConf):
    """Some workers' generators of proposals never answer."""

    kind: str = "generator_dead"
    rate: float = _share(0.15)
    """Of all workers."""


@dataclass
class BadProposalConf(FaultConf):
    """A generator answers with what cannot be built, or says that it has nothing to propose."""

    kind: str = "bad_proposal"
    rate: float = _share(0.1)
    """Of all answers."""


@dataclass
class DriverDiesConf(FaultConf):
    """The driver is killed as it writes or sends; the last line may be torn. The run is resumed after a while."""

    kind: str = "driver_dies"
    rate: float = _share(0.01)
    """Of all appends, and of all orders."""
    seconds: float = _seconds(20.0)
    """On average, until the run is resumed."""


@dataclass
class DiskFullConf(FaultConf):
    """The disk takes only a part of what is to be written; somebody makes room, and the run is resumed."""

    kind: str = "disk_full"
    rate: float = _share(0.005)
    """Of all appends."""
    seconds: float = _seconds(30.0)
    """On average, until there is room again."""


AnyFault = (
    WorkerLostConf
    | WorkerHungConf
    | IdleWorkerHungConf
    | NodeLostConf
    | LateJoinConf
    | FlapConf
    | AllGoneConf
    | StragglerConf
    | WrongClockConf
    | CrashConf
    | MemoryRunsOutConf
    | CheckpointsVanishConf
    | CheckpointsUnwrittenConf
    | LateConf
    | TwiceConf
    | OutOfOrderConf
    | NeverConf
    | GeneratorDeadConf
    | BadProposalConf
    | DriverDiesConf
    | DiskFullConf
)
"""One of them."""
FAULTS: tuple[type[AnyFault], ...] = get_args(AnyFault)
"""All that can be injected, under their kinds."""
