"""How far two architectures of a run are from each other, and how much the one's result says about the other's.

All architectures of a run grow from one starting graph, so one is described by how far it has grown from there: for each
stage (each resolution of the starting graph's maps) in depth, width, kernels and skips, in powers of two. The description is
made along the lineage, morph by morph, and needs no graph: some microseconds where rebuilding a graph takes milliseconds.

Regarded as equal: growth of one kind by one amount anywhere within one stage (a convolution after the stage's second or its
third ReLU), whichever channels were copied, and whatever the training was. Such architectures share a descriptor though their
fingerprints differ; what their results differ by is noise to the regression.

The kernel is a positive combination of a rational quadratic kernel of the Euclidean distance between descriptors and of their
scalar product. The first is positive definite on any Euclidean space, being a mixture of Gaussians of all length scales
(Rasmussen & Williams 2006, equation 4.19), the second is a Gram matrix, and sums of both stay so; descriptors that coincide
only need the noise on the diagonal. Edit distances between graphs, which the predecessor used, give no such guarantee. Of all
kernels of that kind this one is the cheapest (a Matérn takes an exponential and a root for each pair), and it forgets slowly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from morphism import Convolution, Deepen, Graph, Kernel, Map, Morph, Skip, Widen

Array: TypeAlias = NDArray[np.float64]

KINDS_OF_GROWTH: Final = 4
"""Depth, width, kernel, skip: the rows of a descriptor."""
_DEPTH, _WIDTH, _KERNEL, _SKIP = range(KINDS_OF_GROWTH)
WITHOUT_KERNELS: Final = [_DEPTH, _WIDTH, _SKIP]
"""The kinds of growth that tuning has no part in."""

_DEEPENED_KERNEL: Final = 3
"""Edge of the kernel of a convolution that a Deepen adds (docs/benchmark.md)."""


@dataclass(frozen=True, slots=True)
class Outline:
    """How far an architecture has grown since the starting graph."""

    growth: tuple[float, ...]
    """By kind, then by stage: convolutions added; doublings of channels; doublings of kernels; branches added."""
    sizes: Mapping[tuple[int, str], int]
    """Channels and kernels that are no longer those at the start, by (kind, name of the convolution)."""
    places: Mapping[str, str]
    """What was added, by the first segment of its name ('deepen3'), with the node at the start that it belongs to."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where on a starting graph a morph takes effect, and what stood there at the start."""

    stages: Mapping[str, int]
    """Of each node that carries maps, by name."""
    channels: Mapping[str, int]
    kernels: Mapping[str, int]
    convolutions: tuple[int, ...]
    """How many there are in each stage, at least 1."""
    taken: frozenset[str]
    """First segments of names at the start."""
    untouched: Outline

    @classmethod
    def of(cls, start: Graph) -> Places:
        """The places of a starting graph. A stage is a resolution: each height of maps, as they come."""
        heights = list(dict.fromkeys(shape.height for shape in start.shapes if isinstance(shape, Map)))
        stages: dict[str, int] = {}
        channels: dict[str, int] = {}
        kernels: dict[str, int] = {}
        convolutions = [0] * len(heights)
        for node, shape in zip(start.nodes, start.shapes, strict=True):
            if not isinstance(shape, Map):
                continue
            stage = stages[node.name] = heights.index(shape.height)
            channels[node.name] = shape.channels
            if isinstance(node.op, Convolution):
                convolutions[stage] += 1
                kernels[node.name] = node.op.kernel
        return cls(
            stages,
            channels,
            kernels,
            tuple([max(1, count) for count in convolutions]),
            frozenset(node.name.partition(".")[0] for node in start.nodes),
            Outline((0.0,) * (KINDS_OF_GROWTH * len(heights)), {}, {}),
        )

    def grown(self, outline: Outline, morphs: Sequence[Morph]) -> Outline:
        """The outline after these morphs, in order; KeyError for a morph of a node that is not there."""
        growth, sizes, places = list(outline.growth), outline.sizes, outline.places
        stages, count = self.stages, len(self.convolutions)
        for morph in morphs:
            match morph:
                case Deepen(after=after):
                    place = after if after in stages else places[after.partition(".")[0]]
                    growth[_DEPTH * count + stages[place]] += 1
                    places = {**places, self._free("deepen", places): place}
                case Skip(target=target):
                    place = target if target in stages else places[target.partition(".")[0]]
                    growth[_SKIP * count + stages[place]] += 1
                    places = {**places, self._free("skip", places): place}
                case Widen(convolution=name, channels=channels):
                    place = name if name in stages else places[name.partition(".")[0]]
                    former = sizes.get((_WIDTH, name)) or self.channels[place]
                    # what was added behind a wider place was wider from the beginning: that counts, and never below zero
                    growth[_WIDTH * count + stages[place]] += max(0.0, log2(channels / former))
                    sizes = {**sizes, (_WIDTH, name): channels}
                case Kernel(convolution=name, kernel=kernel):
                    place = name if name in stages else places[name.partition(".")[0]]
                    former = sizes.get((_KERNEL, name)) or self.kernels.get(name, _DEEPENED_KERNEL)
                    growth[_KERNEL * count + stages[place]] += max(0.0, log2(kernel / former))
                    sizes = {**sizes, (_KERNEL, name): kernel}
                case _:
                    assert_never(morph)
        return Outline(tuple(growth), sizes, places)

    def _free(self, kind: str, places: Mapping[str, str]) -> str:
        # as morphism.grow names what it adds: the first number that is free; tests hold the two together
        number = 1
        while (name := f"{kind}{number}") in places or name in self.taken:
            number += 1
        return name

    def descriptors(self, outlines: Sequence[Outline]) -> Array:
        """One row an architecture, KINDS_OF_GROWTH columns a stage.

        Depth and skips: the binary logarithm of 1 + what was added / convolutions at the start; width and kernel: doublings
        a convolution. A stage of 4 convolutions with one more: log2(5/4) = 0.32; with one of them twice as wide: 0.25.
        """
        stages = len(self.convolutions)
        growth = np.array([outline.growth for outline in outlines], dtype=np.float64)
        growth = growth.reshape(len(outlines), KINDS_OF_GROWTH, stages) / np.array(self.convolutions, dtype=np.float64)
        growth[:, (_DEPTH, _SKIP)] = np.log2(1.0 + growth[:, (_DEPTH, _SKIP)])
        return growth.reshape(len(outlines), KINDS_OF_GROWTH * stages)


def products(left: Array, right: Array) -> Array:
    """The scalar products of descriptors: (n, d), (m, d) → (n, m).

    Columns lie one after the other, as LAPACK wants them, where both are the same array.
    """
    found: Array = left @ right.T
    return found.T if left is right else found


def squared_distances(left: Array, right: Array, scalar: Array | None = None) -> Array:
    """The squared Euclidean distances between descriptors, whose `products` may be known: (n, d), (m, d) → (n, m)."""
    squares = (products(left, right) if scalar is None else scalar) * -2.0
    squares += (left * left).sum(axis=1)[:, None]
    squares += (right * right).sum(axis=1)[None, :]
    # what coincides can come out a rounding below zero
    return np.maximum(squares, 0.0, out=squares)


def similarity(squares: Array, length: float) -> Array:
    """The rational quadratic kernel with α = 1, of squared distances: 1 / (1 + distance² / (2·length²)); 1 at distance 0."""
    similar = squares * (0.5 / (length * length))
    similar += 1.0
    return np.reciprocal(similar, out=similar)
