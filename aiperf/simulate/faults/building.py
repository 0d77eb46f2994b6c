"""From faults as they are configured (`cluster/faults.py`) to faults that strike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from aiperf.option_limits import hold
from aiperf.simulate.faults import driver, messages, proposals, training, workers
from aiperf.simulate.model.fault import Fault
from cluster import faults
from cluster.faults import AnyFault


def build_faults(configured: Sequence[AnyFault], seed: int) -> tuple[Fault, ...]:
    """The faults of a list, each with its own draws from the run's seed and its place in the list."""
    built = tuple(build_fault(each) for each in configured)
    for place, fault in enumerate(built):
        fault.seed(seed, place)
    return built


def build_fault(conf: AnyFault) -> Fault:
    """The fault that a configuration describes; mypy shows the kind that is missing here."""
    hold(conf, "cluster.faults")
    match conf:
        case faults.WorkerLostConf():
            return workers.WorkerLost(conf)
        case faults.WorkerHungConf():
            return workers.WorkerHung(conf)
        case faults.IdleWorkerHungConf():
            return workers.IdleWorkerHung(conf)
        case faults.NodeLostConf():
            return workers.NodeLost(conf)
        case faults.LateJoinConf():
            return workers.LateJoin(conf)
        case faults.FlapConf():
            return workers.Flap(conf)
        case faults.AllGoneConf():
            return workers.AllGone(conf)
        case faults.StragglerConf():
            return workers.Straggler(conf)
        case faults.WrongClockConf():
            return workers.WrongClock(conf)
        case faults.CrashConf():
            return training.Crash(conf)
        case faults.MemoryRunsOutConf():
            return training.MemoryRunsOut(conf)
        case faults.CheckpointsVanishConf():
            return training.CheckpointsVanish(conf)
        case faults.CheckpointsUnwrittenConf():
            return training.CheckpointsUnwritten(conf)
        case faults.LateConf():
            return messages.Late(conf)
        case faults.TwiceConf():
            return messages.Twice(conf)
        case faults.OutOfOrderConf():
            return messages.OutOfOrder(conf)
        case faults.NeverConf():
            return messages.Never(conf)
        case faults.GeneratorDeadConf():
            return proposals.GeneratorDead(conf)
        case faults.BadProposalConf():
            return proposals.BadProposal(conf)
        case faults.DriverDiesConf():
            return driver.DriverDies(conf)
        case faults.DiskFullConf():
            return driver.DiskFull(conf)
        case _:
            assert_never(conf)
