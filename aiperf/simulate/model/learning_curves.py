"""Invented learning curves. They are seeded; they fall to a floor that the architecture decides, sooner with inherited weights.

The error of an epoch falls as a power of the epochs trained. The floor falls as a power of the architecture's operations (the
shape of Hestness et al. 2017, arXiv:1712.00409; the constants are ours), unless a run is given another `Learning`: what is
measured of searchers is measured on stated landscapes (benchmarks/landscapes.py). The curves say nothing about any data set.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Protocol

from morphism import Graph, cost

_FLOOR = 0.22
"""The error that the starting graph tends to."""
_FLOOR_EXPONENT = 0.15
"""How the floor falls with operations."""
_LUCK = 0.03
"""Of a training, as a share of its floor: the standard deviation of its logarithm."""
_EPOCH_EXPONENT = 1.1
_EPOCH_SCALE = 2.0
_INHERITED = 0.8
"""Share of its parent's epochs that a child starts with."""
_NOISE = 0.004
"""Of an evaluation, as a share of its error."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One trial's learning, a function of its seed, its floor and what it inherited: the same in every attempt."""

    chance_error: float
    """Of guessing: 1 − 1/classes."""
    floor: float
    inherited_epochs: float
    noise: tuple[float, ...]
    """Of each epoch, from 1."""
    heat: tuple[float, ...] = ()
    """Of each epoch, from 1, the share by which its learning rate raises the error; empty: the learning rate has no effect."""

    def error(self, epoch: int) -> float:
        """1 − validation accuracy after an epoch (from 1)."""
        trained = self.inherited_epochs + epoch
        error = self.floor + (self.chance_error - self.floor) * math.pow(1 + trained / _EPOCH_SCALE, -_EPOCH_EXPONENT)
        if self.heat:
            error *= 1 + self.heat[epoch - 1]
        return min(self.chance_error, max(0.001, error * (1 + self.noise[epoch - 1])))

    def loss(self, epoch: int, classes: int) -> float:
        """Cross-entropy that goes with the error: ln(classes) at chance."""
        return math.log(classes) * self.error(epoch) / self.chance_error

    def experience(self, epoch: int) -> float:
        """What a child inherits of the weights after an epoch, in epochs."""
        return _INHERITED * (self.inherited_epochs + epoch)


class Learning(Protocol):
    """How well the trials of a simulated run learn."""

    def floor(self, graph: Graph) -> float:
        """The error that trainings of an architecture tend to, without luck; the same whenever it is asked for."""
        ...

    def curve(self, seed: int, classes: int, floor: float, inherited_epochs: float, epochs: int) -> Curve:
        """One training towards that floor; `epochs`: the most that will be asked for."""
        ...


@dataclass(frozen=True, slots=True)
class ByOperations:
    """Networks with more operations reach lower errors, whatever their shape. The learning rate has no effect."""

    start_flops: int
    """Of one image in training, of the starting graph."""

    def floor(self, graph: Graph) -> float:
        """See Learning."""
        return self.floor_of(cost(graph).training_flops)

    def floor_of(self, training_flops: float) -> float:
        """The floor of any architecture with so many operations an image."""
        return float(_FLOOR * (training_flops / self.start_flops) ** -_FLOOR_EXPONENT)

    def curve(self, seed: int, classes: int, floor: float, inherited_epochs: float, epochs: int) -> Curve:
        """See Learning."""
        return curve(seed, classes, floor, inherited_epochs, epochs)


def curve(seed: int, classes: int, floor: float, inherited_epochs: float, epochs: int) -> Curve:
    """A training towards a floor, with its luck; `epochs`: the most that will be asked for."""
    draw = random.Random(seed)
    luck = math.exp(draw.gauss(0.0, _LUCK))
    noise = tuple([draw.gauss(0.0, _NOISE) for _ in range(epochs)])
    return Curve(1 - 1 / classes, min(0.9, floor * luck), inherited_epochs, noise)
