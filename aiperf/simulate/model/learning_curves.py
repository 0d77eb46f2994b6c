"""Invented learning curves of simulated trainings, in the shape of Hestness et al. 2017. They describe no data set."""

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
    """Invented learning curve of one network: error and loss by epoch. It is the same in every training of the network."""

    chance_error: float
    """Error of guessing: 1 − 1/classes."""
    floor: float
    inherited_epochs: float
    noise: tuple[float, ...]
    """Noise of each epoch, from 1."""
    heat: tuple[float, ...] = ()
    """Relative increase of the error by the learning rate, for each epoch from 1. Empty for no effect."""

    def error(self, epoch: int) -> float:
        """Return the validation error (1 − accuracy, 0..1) after an epoch. `epoch`: from 1."""
        trained = self.inherited_epochs + epoch
        error = self.floor + (self.chance_error - self.floor) * math.pow(1 + trained / _EPOCH_SCALE, -_EPOCH_EXPONENT)
        if self.heat:
            error *= 1 + self.heat[epoch - 1]
        return min(self.chance_error, max(0.001, error * (1 + self.noise[epoch - 1])))

    def loss(self, epoch: int, classes: int) -> float:
        """Return the cross-entropy loss (in nats) after an epoch, proportional to the error."""
        return math.log(classes) * self.error(epoch) / self.chance_error

    def experience(self, epoch: int) -> float:
        """Return the training that a child network inherits with the weights after an epoch, as a number of epochs."""
        return _INHERITED * (self.inherited_epochs + epoch)


class Learning(Protocol):
    """Model of learning in a simulated run: final error of each network, and its learning curve."""

    def floor(self, graph: Graph) -> float:
        """Return the final validation error (0..1) of a network without random variation. Equal graphs give equal errors."""
        ...

    def curve(self, seed: int, classes: int, floor: float, inherited_epochs: float, epochs: int) -> Curve:
        """Return the learning curve of one network.

        `seed`: seed of the random variation. `classes`: number of classes of the data set. `floor`: final error of the
        network, 0..1. `inherited_epochs`: training that the first weights already have, in epochs. `epochs`: maximum number
        of epochs.
        """
        ...


@dataclass(frozen=True, slots=True)
class ByOperations:
    """Model of learning: networks with more operations have a lower error. The learning rate has no effect."""

    start_flops: int
    """Operations of one image in training, for the starting graph."""

    def floor(self, graph: Graph) -> float:
        """Return the final validation error (0..1) of a network, from its operations per image in training."""
        return self.floor_of(cost(graph).training_flops)

    def floor_of(self, training_flops: float) -> float:
        """Return the final validation error (0..1) of a network with `training_flops` operations per image in training."""
        return float(_FLOOR * (training_flops / self.start_flops) ** -_FLOOR_EXPONENT)

    def curve(self, seed: int, classes: int, floor: float, inherited_epochs: float, epochs: int) -> Curve:
        """Return the learning curve of one network, with random variation by `seed`."""
        return curve(seed, classes, floor, inherited_epochs, epochs)


def curve(seed: int, classes: int, floor: float, inherited_epochs: float, epochs: int) -> Curve:
    """Return the learning curve of one network towards the error `floor` (0..1), with random variation by `seed`."""
    draw = random.Random(seed)
    luck = math.exp(draw.gauss(0.0, _LUCK))
    noise = tuple([draw.gauss(0.0, _NOISE) for _ in range(epochs)])
    return Curve(1 - 1 / classes, min(0.9, floor * luck), inherited_epochs, noise)
