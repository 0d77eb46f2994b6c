"""Order of an epoch's images, their distribution over ranks, and the random numbers of each image.

Everything is arithmetic on (seed, epoch, image), without a generator's hidden state. So order and augmentation are the same for
any number of ranks and threads, and on every machine and version of numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from aiperf.data.errors import DataError

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a pseudo-random 64-bit number for each value: the finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    z = values.copy()
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


@lru_cache(maxsize=64)
def _key(*salt: int) -> int:
    state = 0
    for number in salt:
        state = int(mixed(np.full(1, (state + _GOLDEN + number) & _MASK, np.uint64))[0])
    return state


def draws(images: NDArray[np.int64], count: int, *salt: int) -> NDArray[np.float64]:
    """Return random numbers in [0, 1), shape (images, count). `salt`: integers such as seed and epoch."""
    counters = np.arange(count, dtype=np.uint64)[None].repeat(len(images), axis=0)
    counters += images.astype(np.uint64)[:, None] * np.uint64(count)
    counters *= np.uint64(_GOLDEN)
    counters += np.uint64(_key(*salt))
    mixed_bits = mixed(mixed(counters))
    return (mixed_bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


@lru_cache(maxsize=4)
def shuffled(images: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return a random permutation of 0..images−1, read-only. 1.28 million images take about 0.1 s."""
    keys = mixed(mixed(np.arange(images, dtype=np.uint64) * np.uint64(_GOLDEN) + np.uint64(_key(seed, epoch))))
    order = np.argsort(keys, kind="stable")
    order.flags.writeable = False
    return order


@dataclass(frozen=True, slots=True)
class OrderStep:
    """One step of all ranks (training processes) together: the positions [start, stop) of the epoch's order of images."""

    start: int
    stop: int

    def share(self, rank: int, ranks: int) -> slice:
        """Return the positions of one rank. Shares are contiguous, and their sizes differ by at most one image."""
        images = self.stop - self.start
        return slice(self.start + images * rank // ranks, self.start + images * (rank + 1) // ranks)

    @property
    def images(self) -> int:
        return self.stop - self.start


@lru_cache(maxsize=16)
def training_steps(images: int, batch: int, ranks: int) -> tuple[OrderStep, ...]:
    """Return the steps of a training epoch, with `batch` images on each of `ranks` ranks. The remainder is not visited.

    A set smaller than one whole step is one step. Raise DataError for fewer images than ranks. A smaller last step would change
    the running statistics of batch normalisation as much as any other step, by a tenth, just before validation. timm
    (`drop_last=is_training`) and NVIDIA's DeepLearningExamples train in the same way.

    >>> [step.images for step in training_steps(1000, 128, 2)]
    [256, 256, 256]
    """
    whole = batch * ranks
    if images < whole:
        return steps(images, batch, ranks)
    return tuple(OrderStep(number * whole, (number + 1) * whole) for number in range(images // whole))


@lru_cache(maxsize=16)
def steps(images: int, batch: int, ranks: int) -> tuple[OrderStep, ...]:
    """Return the steps of a pass over all images, with `batch` images on each of `ranks` ranks, and fewer in the last step.

    Every rank has at least one image in every step, because all ranks must exchange gradients equally often. From batch 4 it
    has at least two, unless a single step holds fewer images, because batch normalisation of a 1×1 map needs two. A last step
    that would be too small takes images from the previous one. Raise DataError for fewer images than ranks.
    """
    assert batch > 0 and ranks > 0, (batch, ranks)
    if images < ranks:
        raise DataError(
            f"every rank needs at least one image per step, but there are {images} images for {ranks} ranks: "
            f"use at most {images} ranks, or a larger data set"
        )
    whole = batch * ranks
    least = ranks * (2 if batch >= 4 else 1)
    full, rest = divmod(images, whole)
    sizes = [whole] * full
    if rest >= least or (rest and not full):
        sizes.append(rest)
    elif rest:
        last = sizes.pop() + rest
        sizes += [last - least, least] if last - least >= least else [last]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return tuple(OrderStep(int(a), int(b)) for a, b in pairwise(starts))
