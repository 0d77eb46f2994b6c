"""Invented learning curves: seeded, saturating, better with more operations and with what was inherited.

The error of an epoch falls as a power of the epochs trained, towards a floor that itself falls as a power of the architecture's
operations (the shape of Hestness et al. 2017, arXiv:1712.00409; the constants are ours). They say nothing about any data set.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

_FLOOR = 0.22
"""The error that the starting graph tends to."""
_FLOOR_EXPONENT = 0.15
"""How the floor falls with operations."""
_EPOCH_EXPONENT = 1.1
_EPOCH_SCALE = 2.0
_INHERITED = 0.8
"""Share of its parent's epochs that a child starts with."""
_NOISE = 0.004


@dataclass(frozen=True, slots=True)
class Curve:
    """One trial's learning, a function of its seed, its operations and what it inherited: the same in every attempt."""

    chance_error: float
    """Of guessing: 1 − 1/classes."""
    floor: float
    inherited_epochs: float
    noise: tuple[float, ...]
    """Of each epoch, from 1."""

    def error(self, epoch: int) -> float:
        """1 − validation accuracy after an epoch (from 1)."""
        trained = self.inherited_epochs + epoch
        error = self.floor + (self.chance_error - self.floor) * math.pow(1 + trained / _EPOCH_SCALE, -_EPOCH_EXPONENT)
        return min(self.chance_error, max(0.001, error * (1 + self.noise[epoch - 1])))

    def loss(self, epoch: int, classes: int) -> float:
        """Cross-entropy that goes with the error: ln(classes) at chance."""
        return math.log(classes) * self.error(epoch) / self.chance_error

    def experience(self, epoch: int) -> float:
        """What a child inherits of the weights after an epoch, in epochs."""
        return _INHERITED * (self.inherited_epochs + epoch)


def curve(seed: int, classes: int, relative_flops: float, inherited_epochs: float, epochs: int) -> Curve:
    """`relative_flops`: forward operations as a multiple of the starting graph's. `epochs`: the most that will be asked for."""
    draw = random.Random(seed)
    luck = math.exp(draw.gauss(0.0, 0.03))
    floor = min(0.9, _FLOOR * relative_flops**-_FLOOR_EXPONENT * luck)
    noise = tuple([draw.gauss(0.0, _NOISE) for _ in range(epochs)])
    return Curve(1 - 1 / classes, floor, inherited_epochs, noise)
