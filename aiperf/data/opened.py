"""An opened data set, which a trainer keeps for the whole run and all its trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Unpack

from aiperf.data.batches import Batches, DataPass, RankBatches, Split
from aiperf.data.description import DataSet
from aiperf.data.errors import CorruptImages
from aiperf.data.visiting_order import OrderStep, training_steps


class OpenData:
    """Training and validation batches of one set, in one process. Close it, or use it as a context.

    If images are decoded on demand, the end of a training pass begins the following validation pass and the next epoch.
    `prime_training` begins a new trial's first pass.
    """

    def __init__(
        self,
        description: DataSet,
        training: Split,
        validation: Split,
        *,
        augment: bool,
        how: str,
        corrupt: CorruptImages | None = None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self.description = description
        """Numbers of the set, without the images found corrupt so far."""
        self.how = how
        """Path of images to the network, as text for the report."""
        self._training = training
        self._validation = validation
        self._augment = augment
        self._corrupt = corrupt
        self._close = close
        self._last_validation: DataPass | None = None

    def training(self, batch: int, *, epoch: int, seed: int, **of_rank: Unpack[RankBatches]) -> Batches:
        """Return one epoch of this rank's training batches, shuffled by (seed, epoch) and augmented.

        Each image is on exactly one rank. `batch`: images of one rank in a step. Raises DataError, and DamagedData during
        iteration.
        """
        return self._training.walk(self._training_pass(batch, epoch, seed, of_rank))

    def validation(self, batch: int, **of_rank: Unpack[RankBatches]) -> Batches:
        """Return this rank's validation batches: no shuffling, no augmentation, each image on exactly one rank."""
        self._last_validation = DataPass(batch=batch, is_training=False, augment=False, **of_rank)
        return self._validation.walk(self._last_validation)

    def prime_training(self, batch: int, *, epoch: int, seed: int, **of_rank: Unpack[RankBatches]) -> None:
        """Begin to decode the first batches of a later call of `training` with the same arguments."""
        self._training.prime(self._training_pass(batch, epoch, seed, of_rank))

    def training_steps(self, batch: int, ranks: int) -> tuple[OrderStep, ...]:
        return training_steps(self.training_images, batch, ranks)

    @property
    def training_images(self) -> int:
        """Images of the training split. An epoch uses as many of them as fill whole steps."""
        return self._training.images

    @property
    def validation_images(self) -> int:
        return self._validation.images

    @property
    def corrupt(self) -> tuple[tuple[str, str], ...]:
        """Return (image, reason) of each corrupt image that this process has found so far."""
        return () if self._corrupt is None else self._corrupt.names()

    def begin_what_follows(self, walk: DataPass) -> None:
        """Begin to decode the passes after a training pass: validation and next epoch. Called after its last image."""
        if self._last_validation is not None and self._last_validation.device == walk.device:
            self._validation.prime(self._last_validation)
        self._training.prime(replace(walk, epoch=walk.epoch + 1))

    def close(self) -> None:
        """End decoding threads and release shared memory."""
        self._close()  # first the threads, because they read memory of the splits
        self._training.close()
        self._validation.close()

    def __enter__(self) -> OpenData:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _training_pass(self, batch: int, epoch: int, seed: int, of_rank: RankBatches) -> DataPass:
        return DataPass(batch=batch, is_training=True, augment=self._augment, epoch=epoch, seed=seed, **of_rank)
