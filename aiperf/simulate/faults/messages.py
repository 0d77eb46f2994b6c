"""Faults of words on their way from a worker to the driver: they arrive late, twice, out of order, or never."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiperf.journal.messages import Word, WorkerDown, WorkerUp
from aiperf.simulate.model.fault import Fault
from cluster.faults import LateConf, NeverConf, OutOfOrderConf, TwiceConf


@dataclass(slots=True, eq=False)
class Late(Fault):
    """Words are held up, each for itself: those sent later may overtake them."""

    conf: LateConf

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.conf.rate:
            return (delay + self.draw.random() * self.conf.seconds,)
        return (delay,)


@dataclass(slots=True, eq=False)
class Twice(Fault):
    """Words arrive twice."""

    conf: TwiceConf

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.conf.rate:
            return (delay, delay + self.draw.random() * self.conf.apart_seconds)
        return (delay,)


@dataclass(slots=True, eq=False)
class OutOfOrder(Fault):
    """Words swap places with those sent shortly after them."""

    conf: OutOfOrderConf

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.conf.rate:
            return (delay + self.draw.random() * self.conf.seconds,)
        return (delay,)


@dataclass(slots=True, eq=False)
class Never(Fault):
    """Words are lost; but for those with which the executor itself tells that a worker is up or gone."""

    conf: NeverConf

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if not isinstance(word, WorkerUp | WorkerDown) and self.draw.random() < self.conf.rate:
            return ()
        return (delay,)
