"""Invented learning curves. They are seeded and fall to a floor set by the architecture, faster with inherited weights.

The error of an epoch falls as a power of the epochs trained. The floor falls as a power of the architecture's operations (the
shape of Hestness et al. 2017, arXiv:1712.00409, with other constants). A run can get another `Learning`: studies of searchers
use defined landscapes (tests/builders/landscapes.py). The curves do not describe any data set.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Protocol

from morphism import Graph, cost

_FLOOR = 0.22
"""Final error of the starting graph."""
_FLOOR_EXPONENT = 0.15
"""Exponent of the floor's decrease with operations."""
_LUCK = 0.03
"""Random variation of a training: standard deviation of the logarithm of its floor."""
_EPOCH_EXPONENT = 1.1
_EPOCH_SCALE = 2.0
_INHERITED = 0.8
"""Share of its parent's epochs that a child starts with."""
_NOISE = 0.004
"""Noise of an evaluation as a share of its error."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Learning curve of one trial: a function of seed, floor and inherited experience. It is the same in every attempt."""

    chance_error: float
    """Error of guessing: 1 − 1/classes."""
    floor: float
    inherited_epochs: float
    noise: tuple[float, ...]
    """Noise of each epoch, from 1."""
    heat: tuple[float, ...] = ()
    """Relative increase of the error by the learning rate, for each epoch from 1. Empty for no effect."""

    def error(self, epoch: int) -> float:
        """Return 1 − validation accuracy after an epoch (from 1)."""
        trained = self.inherited_epochs + epoch
        error = self.floor + (self.chance_error - self.floor) * math.pow(1 + trained / _EPOCH_SCALE, -_EPOCH_EXPONENT)
        if self.heat:
            error *= 1 + self.heat[epoch - 1]
        return min(self.chance_error, max(0.001, error * (1 + self.noise[epoch - 1])))

    def loss(self, epoch: int, classes: int) -> float:
        """Return the cross-entropy loss that belongs to the error after an epoch: ln(classes) for guessing."""
        return math.log(classes) * self.error(epoch) / self.chance_error

    def experience(self, epoch: int) -> float:
        """Return the epochs of training that a child of the trial inherits with its weights after an epoch (from 1)."""
        return _INHERITED * (self.inherited_epochs + epoch)


class Learning(Protocol):
    """Learning behaviour of the trials of a simulated run."""

    def floor(self, graph: Graph) -> float:
        """Return the final error (a fraction) of an architecture, without random variation. It is deterministic."""
        ...

    def curve(self, seed: int, classes: int, floor: float, inherited_epochs: float, epochs: int) -> Curve:
        """Return the learning curve of one training.

        Args:
            seed: Seed of the random variation.
            classes: Number of classes of the data set.
            floor: Final error of the architecture.
            inherited_epochs: Epochs of training that the first weights already have.
            epochs: Maximum number of epochs.
        """
        ...


@dataclass(frozen=True, slots=True)
class ByOperations:
    """Lower error for networks with more operations, of any shape. The learning rate has no effect."""

    start_flops: int
    """Operations of one image in training, for the starting graph."""

    def floor(self, graph: Graph) -> float:
        return self.floor_of(cost(graph).training_flops)

    def floor_of(self, training_flops: float) -> float:
        """Return the error that training converges to, for an architecture with `training_flops` operations per image."""
        return float(_FLOOR * (training_flops / self.start_flops) ** -_FLOOR_EXPONENT)

    def curve(self, seed: int, classes: int, floor: float, inherited_epochs: float, epochs: int) -> Curve:
        return curve(seed, classes, floor, inherited_epochs, epochs)


def curve(seed: int, classes: int, floor: float, inherited_epochs: float, epochs: int) -> Curve:
    """Return the learning curve of one training towards the error `floor`, with random variation.

    `inherited_epochs`: experience of the inherited weights, in epochs. `epochs`: maximum number of epochs.
    """
    draw = random.Random(seed)
    luck = math.exp(draw.gauss(0.0, _LUCK))
    noise = tuple([draw.gauss(0.0, _NOISE) for _ in range(epochs)])
    return Curve(1 - 1 / classes, min(0.9, floor * luck), inherited_epochs, noise)
