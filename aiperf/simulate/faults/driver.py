"""Faults of the driver and of its disk: killed between any two lines or orders, the last line torn; no room for a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiperf.journal.events import AnyEvent
from aiperf.journal.messages import Order
from aiperf.simulate.model.driver_death import Death, DriverKilled
from aiperf.simulate.model.fault import Fault
from cluster.faults import DiskFullConf, DriverDiesConf

if TYPE_CHECKING:
    from aiperf.simulate.model.simulated_executor import SimulatedExecutor


@dataclass(slots=True, eq=False)
class DriverDies(Fault):
    """The driver is killed as it writes or sends; the last line may be torn. The run is resumed after a while."""

    conf: DriverDiesConf

    def appending(self, cluster_time: float, events: Sequence[AnyEvent]) -> Death | None:
        if self.draw.random() >= self.conf.rate:
            return None
        whole = self.draw.randint(0, len(events))
        return Death(whole, self.draw.choice((0.0, self.draw.random())), self.draw.expovariate(1 / self.conf.seconds))

    def ordered(self, cluster: SimulatedExecutor, order: Order) -> None:
        if self.draw.random() < self.conf.rate:
            raise DriverKilled(self.draw.expovariate(1 / self.conf.seconds))


@dataclass(slots=True, eq=False)
class DiskFull(Fault):
    """The disk takes only a part of what is to be written; somebody makes room, and the run is resumed."""

    conf: DiskFullConf

    def appending(self, cluster_time: float, events: Sequence[AnyEvent]) -> Death | None:
        if self.draw.random() >= self.conf.rate:
            return None
        whole, torn, down = (
            self.draw.randrange(len(events)),
            self.draw.random(),
            self.draw.expovariate(1 / self.conf.seconds),
        )
        return Death(whole, torn, down, is_disk_full=True)
