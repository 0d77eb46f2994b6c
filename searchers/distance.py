"""Descriptors of architectures (vectors of their growth), their distances, and the covariance kernel of the regression.

A descriptor is the growth since the start in depth, width, kernels and skips, for each stage: a resolution of maps, or a third
of a transformer's blocks. The kernel, a rational quadratic of the distance plus a multiple of the scalar product, is positive
definite (Rasmussen & Williams 2006, equation 4.19), which edit distances do not guarantee, and cheaper than a Matérn kernel.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Final, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from morphism import Convolution, Deepen, Graph, Heads, Kernel, Map, Morph, Skip, Widen
from morphism.sites import is_of_tokens
from morphism.transformer import ends_of_blocks, sizes_at

Array: TypeAlias = NDArray[np.float64]

KINDS_OF_GROWTH: Final = 4
"""Rows of a descriptor: depth, width, kernel, skip."""
_DEPTH, _WIDTH, _KERNEL, _SKIP = range(KINDS_OF_GROWTH)
_HEADS: Final = _SKIP
"""Row of the doublings of heads. A transformer has no skips to add."""
_STAGES_OF_BLOCKS: Final = 3
WITHOUT_KERNELS: Final = [_DEPTH, _WIDTH, _SKIP]
"""Kinds of growth that tuning does not change."""

_DEEPENED_KERNEL: Final = 3
"""Edge of the kernel that a Deepen adds (docs/benchmark.md)."""


@dataclass(frozen=True, slots=True)
class Outline:
    """Growth of an architecture since the starting graph, as counts per stage (a resolution of feature maps)."""

    growth: tuple[float, ...]
    """By kind, then by stage: added convolutions or blocks, doublings of channels or hidden units, doublings of kernels, added
    branches or doublings of heads."""
    sizes: Mapping[tuple[int, str], int]
    """Changed channels, hidden units, kernels and heads, by (kind, name of the node)."""
    places: Mapping[str, str]
    """First segment of each added name ('deepen3'), with the node of the starting graph where it was added."""


@dataclass(frozen=True, slots=True)
class NodeFeatures:
    stages: Mapping[str, int]
    channels: Mapping[str, int]
    """Channels, or hidden units of the block of a node."""
    kernels: Mapping[str, int]
    """Edges of kernels, or heads of the block of a node."""
    convolutions: tuple[int, ...]
    """Number of convolutions, or blocks, of each stage, at least 1."""
    taken: frozenset[str]
    """First segments of the names of the starting graph."""
    untouched: Outline

    @classmethod
    def of(cls, start: Graph) -> NodeFeatures:
        """Nodes with feature maps of equal height are one stage. Stages are numbered from 0, from the input on.

        Block i of n blocks of a transformer is of stage 3·i // n.
        """
        if is_of_tokens(start):
            return cls._of_blocks(start, ends_of_blocks(start) or (len(start.nodes) - 1,))
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

    @classmethod
    def _of_blocks(cls, start: Graph, ends: Sequence[int]) -> NodeFeatures:
        blocks = len(ends)
        stage_of = [_STAGES_OF_BLOCKS * block // blocks for block in range(blocks)]
        stages: dict[str, int] = {}
        channels: dict[str, int] = {}
        kernels: dict[str, int] = {}
        for index, node in enumerate(start.nodes):
            # a node is of the block that ends at it or after it
            block = min(bisect_left(ends, index), blocks - 1)
            stages[node.name] = stage_of[block]
            if (sizes := sizes_at(start, ends[block])) is not None:
                kernels[node.name], channels[node.name] = (op.size for op in sizes)
        counts = [stage_of.count(stage) for stage in range(_STAGES_OF_BLOCKS)]
        return cls(
            stages,
            channels,
            kernels,
            tuple([max(1, count) for count in counts]),
            frozenset(node.name.partition(".")[0] for node in start.nodes),
            Outline((0.0,) * (KINDS_OF_GROWTH * _STAGES_OF_BLOCKS), {}, {}),
        )

    def grown(self, outline: Outline, morphs: Sequence[Morph]) -> Outline:
        """Raise KeyError if a morph names a node that is neither in the starting graph nor added by an earlier morph."""
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
                    # nodes added to a widened place may be wider than `former`: the growth is never negative
                    growth[_WIDTH * count + stages[place]] += max(0.0, log2(channels / former))
                    sizes = {**sizes, (_WIDTH, name): channels}
                case Kernel(convolution=name, kernel=kernel):
                    place = name if name in stages else places[name.partition(".")[0]]
                    former = sizes.get((_KERNEL, name)) or self.kernels.get(name, _DEEPENED_KERNEL)
                    growth[_KERNEL * count + stages[place]] += max(0.0, log2(kernel / former))
                    sizes = {**sizes, (_KERNEL, name): kernel}
                case Heads(attention=name, heads=heads):
                    place = name if name in stages else places[name.partition(".")[0]]
                    former = sizes.get((_HEADS, name)) or self.kernels[place]
                    growth[_HEADS * count + stages[place]] += max(0.0, log2(heads / former))
                    sizes = {**sizes, (_HEADS, name): heads}
                case _:
                    assert_never(morph)
        return Outline(tuple(growth), sizes, places)

    def _free(self, kind: str, places: Mapping[str, str]) -> str:
        # the first free number, as in morphism.grow; a test compares the two
        number = 1
        while (name := f"{kind}{number}") in places or name in self.taken:
            number += 1
        return name

    def descriptors(self, outlines: Sequence[Outline]) -> Array:
        """Return the descriptors (vectors of growth) of architectures, shape (outlines, KINDS_OF_GROWTH · stages).

        The columns are depth, width, kernel and skip, each for all stages. Depth and skips: log2(1 + added / convolutions at
        the start). Width and kernel: doublings per convolution. Examples for a stage of 4 convolutions: one more is log2(5/4)
        = 0.32, one of twice the width is 0.25.
        """
        stages = len(self.convolutions)
        growth = np.array([outline.growth for outline in outlines], dtype=np.float64)
        growth = growth.reshape(len(outlines), KINDS_OF_GROWTH, stages) / np.array(self.convolutions, dtype=np.float64)
        growth[:, (_DEPTH, _SKIP)] = np.log2(1.0 + growth[:, (_DEPTH, _SKIP)])
        return growth.reshape(len(outlines), KINDS_OF_GROWTH * stages)


def products(left: Array, right: Array) -> Array:
    """(n, d), (m, d) → (n, m). If both are the same array, the result is in column order, as LAPACK needs it."""
    scalar: Array = left @ right.T
    return scalar.T if left is right else scalar


def squared_distances(left: Array, right: Array, scalar: Array | None = None) -> Array:
    """(n, d), (m, d) → (n, m). `scalar`: the scalar products of these rows, if known."""
    squares = (products(left, right) if scalar is None else scalar) * -2.0
    squares += (left * left).sum(axis=1)[:, None]
    squares += (right * right).sum(axis=1)[None, :]
    # rounding can make the distance of equal descriptors negative
    return np.maximum(squares, 0.0, out=squares)


def similarity(squares: Array, length: float) -> Array:
    """Rational quadratic kernel with α = 1: 1 / (1 + distance² / (2·length²)), in 0..1."""
    similar = squares * (0.5 / (length * length))
    similar += 1.0
    return np.reciprocal(similar, out=similar)
