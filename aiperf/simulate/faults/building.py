"""Construction of faults from their configurations (`cluster/faults.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from aiperf.option_limits import hold
from aiperf.simulate.faults import kinds
from aiperf.simulate.model.fault import Fault
from cluster import faults
from cluster.faults import AnyFault


def build_faults(configured: Sequence[AnyFault], seed: int) -> tuple[Fault, ...]:
    """Return the faults of a list, each with its own random numbers from the run's seed and its place in the list."""
    built = tuple(build_fault(each) for each in configured)
    for place, fault in enumerate(built):
        fault.seed(seed, place)
    return built


def build_fault(conf: AnyFault) -> Fault:
    """Return the fault of a configuration. mypy reports a missing kind."""
    hold(conf, "cluster.faults")
    match conf:
        case faults.WorkerLostConf():
            return kinds.WorkerLost(conf)
        case faults.WorkerHungConf():
            return kinds.WorkerHung(conf)
        case faults.IdleWorkerHungConf():
            return kinds.IdleWorkerHung(conf)
        case faults.NodeLostConf():
            return kinds.NodeLost(conf)
        case faults.LateJoinConf():
            return kinds.LateJoin(conf)
        case faults.FlapConf():
            return kinds.Flap(conf)
        case faults.AllGoneConf():
            return kinds.AllGone(conf)
        case faults.StragglerConf():
            return kinds.Straggler(conf)
        case faults.WrongClockConf():
            return kinds.WrongClock(conf)
        case faults.CrashConf():
            return kinds.Crash(conf)
        case faults.MemoryRunsOutConf():
            return kinds.MemoryRunsOut(conf)
        case faults.CheckpointsVanishConf():
            return kinds.CheckpointsVanish(conf)
        case faults.CheckpointsUnwrittenConf():
            return kinds.CheckpointsUnwritten(conf)
        case faults.LateConf():
            return kinds.Late(conf)
        case faults.TwiceConf():
            return kinds.Twice(conf)
        case faults.OutOfOrderConf():
            return kinds.OutOfOrder(conf)
        case faults.NeverConf():
            return kinds.Never(conf)
        case faults.GeneratorDeadConf():
            return kinds.GeneratorDead(conf)
        case faults.BadProposalConf():
            return kinds.BadProposal(conf)
        case faults.DriverDiesConf():
            return kinds.DriverDies(conf)
        case faults.DiskFullConf():
            return kinds.DiskFull(conf)
        case _:
            assert_never(conf)
