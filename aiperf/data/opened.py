"""An opened data set: what a trainer holds for the whole run, over all its trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

import torch

from aiperf.data.batches import Batches, Pass, Split
from aiperf.data.corrupt import CorruptImages
from aiperf.data.description import DataSet
from aiperf.data.visiting_order import Step, training_steps


class OpenData:
    """Training and validation batches of one set, in one process. Close it, or use it as a context.

    Where images are decoded as they are needed, the end of a training pass already begins the validation pass that came after
    the one before, and the next epoch; a new trial's first pass is begun by `prime_training`.
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
        """The set in numbers, without the images found corrupt so far."""
        self.how = how
        """How images reach the network, in words for the report."""
        self._training = training
        self._validation = validation
        self._augment = augment
        self._corrupt = corrupt
        self._close = close
        self._last_validation: Pass | None = None

    def training(
        self,
        batch: int,
        *,
        rank: int,
        ranks: int,
        epoch: int,
        seed: int,
        device: torch.device,
        channels_last: bool,
        dtype: torch.dtype,
    ) -> Batches:
        """One epoch of this rank's training batches: shuffled by (seed, epoch), augmented, each image of the set on exactly
        one rank. `batch`: images of one rank in a step. Raises DataError; DamagedData while walking."""
        return self._training.walk(self._training_pass(batch, rank, ranks, epoch, seed, device, channels_last, dtype))

    def validation(
        self, batch: int, *, rank: int, ranks: int, device: torch.device, channels_last: bool, dtype: torch.dtype
    ) -> Batches:
        """This rank's validation batches: no shuffling, no augmentation, each image on exactly one rank."""
        self._last_validation = self._validation_pass(batch, rank, ranks, device, channels_last, dtype)
        return self._validation.walk(self._last_validation)

    def prime_training(
        self,
        batch: int,
        *,
        rank: int,
        ranks: int,
        epoch: int,
        seed: int,
        device: torch.device,
        channels_last: bool,
        dtype: torch.dtype,
    ) -> None:
        """Begins to decode the first batches of what `training` will be called for with the same arguments."""
        self._training.prime(self._training_pass(batch, rank, ranks, epoch, seed, device, channels_last, dtype))

    def training_steps(self, batch: int, ranks: int) -> tuple[Step, ...]:
        """The steps of one training epoch."""
        return training_steps(self.training_images, batch, ranks)

    @property
    def training_images(self) -> int:
        """Images of the training split: an epoch visits as many of them as make whole steps."""
        return self._training.images

    @property
    def validation_images(self) -> int:
        """Images of one validation pass."""
        return self._validation.images

    @property
    def corrupt(self) -> tuple[tuple[str, str], ...]:
        """(image, reason) of the corrupt images met so far in this process."""
        return () if self._corrupt is None else self._corrupt.names()

    def begin_what_follows(self, walk: Pass) -> None:
        """Called when the last image of a training pass has gone to the decoders: begins what comes after it."""
        if self._last_validation is not None and self._last_validation.device == walk.device:
            self._validation.prime(self._last_validation)
        self._training.prime(replace(walk, epoch=walk.epoch + 1))

    def close(self) -> None:
        """Ends decoding threads and lets go of shared memory."""
        self._close()  # first the threads: they read from what the splits let go of
        self._training.close()
        self._validation.close()

    def __enter__(self) -> OpenData:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _training_pass(
        self,
        batch: int,
        rank: int,
        ranks: int,
        epoch: int,
        seed: int,
        device: torch.device,
        channels_last: bool,
        dtype: torch.dtype,
    ) -> Pass:
        return Pass(batch, rank, ranks, device, channels_last, dtype, True, self._augment, epoch, seed)

    def _validation_pass(
        self, batch: int, rank: int, ranks: int, device: torch.device, channels_last: bool, dtype: torch.dtype
    ) -> Pass:
        return Pass(batch, rank, ranks, device, channels_last, dtype, False, False)
