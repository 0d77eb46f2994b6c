"""An opened data set, which a trainer keeps for the whole run and all its trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Unpack

from aiperf.data.batches import Batches, DataPass, RankBatches, Split
from aiperf.data.description import DataSet
from aiperf.data.errors import CorruptImages
from aiperf.data.visiting_order import OrderStep, training_steps


@dataclass(slots=True)
class OpenData:
    """Opened training and validation images of one data set, in one process. Close it, or use it as a context.

    If images are decoded on demand, the end of a training pass begins the following validation pass and the next epoch.
    `prime_training` begins a new trial's first pass.
    """

    description: DataSet
    _training: Split
    _validation: Split
    augment: bool = field(kw_only=True)
    how: str = field(kw_only=True)
    """Path of images to the network, as text for the report."""
    corrupt_images: CorruptImages | None = field(default=None, kw_only=True)
    on_close: Callable[[], None] = field(default=lambda: None, kw_only=True)
    _last_validation: DataPass | None = field(default=None, init=False)

    def training(self, batch: int, *, epoch: int, seed: int, **of_rank: Unpack[RankBatches]) -> Batches:
        """Return an iterator over one epoch of this rank's training batches, shuffled by seed and epoch.

        `batch`: images of one rank in a step. Images are augmented if dataset.augment is true. Images that fill no whole step
        are omitted, unless all images fill none. Raise DataError for fewer images than ranks. The iterator raises DataError if
        files are damaged. Both raise BadConfiguration if dataset.decoder=gpu is impossible here.
        """
        return self._training.walk(self._training_pass(batch, epoch, seed, of_rank))

    def validation(self, batch: int, **of_rank: Unpack[RankBatches]) -> Batches:
        """Return this rank's batches. Each image is on exactly one rank, corrupt ones are skipped. Errors as in `training`."""
        self._last_validation = DataPass(batch=batch, is_training=False, augment=False, **of_rank)
        return self._validation.walk(self._last_validation)

    def prime_training(self, batch: int, *, epoch: int, seed: int, **of_rank: Unpack[RankBatches]) -> None:
        """Begin to decode the first batches of an epoch in the background, for a later `training` with equal arguments."""
        self._training.prime(self._training_pass(batch, epoch, seed, of_rank))

    def training_steps(self, batch: int, ranks: int) -> tuple[OrderStep, ...]:
        """Return the steps of a training epoch, each a range of positions in the shuffled order of the images."""
        return training_steps(self.training_images, batch, ranks)

    @property
    def training_images(self) -> int:
        """An epoch uses as many of them as fill whole steps, or all if they fill none."""
        return self._training.images

    @property
    def validation_images(self) -> int:
        return self._validation.images

    @property
    def corrupt(self) -> tuple[tuple[str, str], ...]:
        """Pairs (name of the image, reason) that this process has found so far."""
        return () if self.corrupt_images is None else self.corrupt_images.names()

    def begin_what_follows(self, walk: DataPass) -> None:
        """Begin to decode the next validation, if the last one was on the same device, and the epoch after the pass `walk`."""
        if self._last_validation is not None and self._last_validation.device == walk.device:
            self._validation.prime(self._last_validation)
        self._training.prime(replace(walk, epoch=walk.epoch + 1))

    def close(self) -> None:
        """End the decoding threads, close files and release shared memory. Call it once."""
        self.on_close()  # first the threads, because they read memory of the splits
        self._training.close()
        self._validation.close()

    def __enter__(self) -> OpenData:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _training_pass(self, batch: int, epoch: int, seed: int, of_rank: RankBatches) -> DataPass:
        return DataPass(batch=batch, is_training=True, augment=self.augment, epoch=epoch, seed=seed, **of_rank)
