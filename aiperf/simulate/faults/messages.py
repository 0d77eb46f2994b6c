"""Faults of words under way from a worker to the driver: late, twice, out of order, or never."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiperf.journal.messages import Word, WorkerDown, WorkerUp
from aiperf.simulate.model.fault import Fault


@dataclass(slots=True, eq=False)
class Late(Fault):
    """Words are held up, each for itself: those sent later may overtake them."""

    rate: float = 0.2
    seconds: float = 20.0
    """At most."""

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.rate:
            return (delay + self.draw.random() * self.seconds,)
        return (delay,)


@dataclass(slots=True, eq=False)
class Twice(Fault):
    """Words arrive twice."""

    rate: float = 0.2
    apart_seconds: float = 10.0
    """At most."""

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.rate:
            return (delay, delay + self.draw.random() * self.apart_seconds)
        return (delay,)


@dataclass(slots=True, eq=False)
class OutOfOrder(Fault):
    """Words swap places with those sent shortly after them."""

    rate: float = 0.3
    seconds: float = 0.5
    """At most."""

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if self.draw.random() < self.rate:
            return (delay + self.draw.random() * self.seconds,)
        return (delay,)


@dataclass(slots=True, eq=False)
class Never(Fault):
    """Words are lost; but for those with which the executor itself tells that a worker is up or gone."""

    rate: float = 0.03

    def carry(self, word: Word, delay: float) -> Sequence[float]:
        if not isinstance(word, WorkerUp | WorkerDown) and self.draw.random() < self.rate:
            return ()
        return (delay,)
