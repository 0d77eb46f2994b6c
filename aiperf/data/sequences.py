"""Sequences of tokens from arrays in memory or mapped files, and their batches: a position's target is the next token."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.data.batches import Batch, Batches, DataPass
from aiperf.data.dataset_config import SequencesConf
from aiperf.data.description import DataSet
from aiperf.data.errors import DamagedData, DataError
from aiperf.data.opened import OpenData
from aiperf.data.pixels import to_device
from aiperf.data.visiting_order import draws
from aiperf.units import count

_SALT_START = 41


@dataclass(frozen=True, slots=True)
class Shard:
    name: str
    tokens: NDArray[np.uint16] | NDArray[np.uint8]
    held: mmap.mmap | None = None
    """Map of the file that holds the tokens. None for an array in memory."""


class SequenceSplit:
    """Training or validation sequences. A sequence is within one shard, and needs the token after it as the last target."""

    def __init__(self, shards: Sequence[Shard], conf: SequencesConf, vocabulary: int, *, is_training: bool) -> None:
        self._shards, self._conf, self._vocabulary = shards, conf, vocabulary
        places = [max(0, len(shard.tokens) - conf.length) for shard in shards]
        self._ends = np.cumsum(places)
        self.images = conf.training_samples if is_training else conf.validation_samples
        if not self._ends[-1]:
            split = "training" if is_training else "validation"
            raise DataError(
                f"a split holds at least one sequence and the token after it, {conf.length + 1} tokens, but the {split} files "
                f"have at most {count(max(len(shard.tokens) for shard in shards))}: add text, or lower dataset.length"
            )

    def walk(self, walk: DataPass) -> Batches:
        return _SequenceBatches(self, walk)

    def prime(self, walk: DataPass) -> None:
        """Do nothing: each batch asks the system to read the pages of the next one."""

    def close(self) -> None:
        """Do nothing: the maps are closed when no array refers to them."""

    def starts(self, walk: DataPass, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the shard and the first token of each sequence."""
        if walk.is_training:
            salt = (walk.seed, walk.epoch) if walk.augment else (0, 0)
            places = (draws(numbers, 1, *salt, _SALT_START)[:, 0] * self._ends[-1]).astype(np.int64)
        else:
            places = numbers * int(self._ends[-1] - 1) // max(1, self.images - 1)
        shards = np.searchsorted(self._ends, places, side="right")
        return shards, places - np.concatenate([[0], self._ends])[shards]

    def read_ahead(self, walk: DataPass, numbers: NDArray[np.int64]) -> None:
        for number, start in zip(*self.starts(walk, numbers), strict=True):
            if (held := self._shards[number].held) is not None:
                first = len(held) - 2 * len(self._shards[number].tokens) + 2 * int(start)
                page = first // mmap.PAGESIZE * mmap.PAGESIZE
                held.madvise(mmap.MADV_WILLNEED, page, first + 2 * self._conf.length + 2 - page)

    def batch(self, walk: DataPass, numbers: NDArray[np.int64], of_all_ranks: int) -> Batch:
        length = self._conf.length
        rows = np.empty((len(numbers), length + 1), np.int64)
        for row, (number, start) in zip(rows, zip(*self.starts(walk, numbers), strict=True), strict=True):
            row[:] = self._shards[number].tokens[start : start + length + 1]
            if (largest := int(row.max())) >= self._vocabulary:
                raise DamagedData(
                    f"tokens are below {self._vocabulary}, but token {int(start + row.argmax())} of "
                    f"{self._shards[number].name!r} is {largest}: run `python -m aiperf prepare` again"
                )
        tokens = to_device(torch.from_numpy(rows), walk.device)
        return Batch(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), len(numbers), of_all_ranks, numbers)


class _SequenceBatches(Batches):
    def __init__(self, split: SequenceSplit, walk: DataPass) -> None:
        super().__init__(walk, split.images)
        self._split = split

    def __next__(self) -> Batch:
        step = self._next_step()
        if self._next < len(self._steps):
            self._split.read_ahead(self._walk, self._mine(self._steps[self._next]))
        return self._split.batch(self._walk, self._mine(step), step.images)


def opened(
    about: DataSet, conf: SequencesConf, training: Sequence[Shard], validation: Sequence[Shard], how: str
) -> OpenData:
    return OpenData(
        about,
        SequenceSplit(training, conf, about.classes, is_training=True),
        SequenceSplit(validation, conf, about.classes, is_training=False),
        augment=conf.augment,
        how=how,
    )
