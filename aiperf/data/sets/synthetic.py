"""Images generated from a seed: image i is the prototype of its class plus noise i of a bank. Nothing is read or decoded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aiperf.data.dataset_config import SyntheticConf
from aiperf.data.description import SYNTHETIC_MEAN as MEAN
from aiperf.data.description import SYNTHETIC_STD as STD
from aiperf.data.description import DataSet, PrepareReport, without_files
from aiperf.data.files.index import of_options
from aiperf.data.visiting_order import draws, shuffled

if TYPE_CHECKING:
    import torch
    from rich.console import Console

    from aiperf.data.opened import OpenData

_BANK = 256
_COARSE = 4
_SALT_PROTOTYPES, _SALT_NOISE, _SALT_CHOICE = 11, 12, 13
_SPLIT_TRAINING, _SPLIT_VALIDATION = 0, 1


def describe(conf: SyntheticConf) -> DataSet:
    return DataSet(
        conf.name,
        conf.training_images,
        conf.validation_images,
        conf.classes,
        conf.image,
        conf.channels,
        MEAN * conf.channels,
        STD * conf.channels,
        fingerprint=of_options(conf),
    )


def open_data(conf: SyntheticConf, cores: int | None) -> OpenData:
    from aiperf.data.inmemory import InMemory
    from aiperf.data.opened import OpenData
    from aiperf.data.pixels import Normaliser

    normalise = Normaliser(conf.image, MEAN * conf.channels, STD * conf.channels)
    prototypes = _prototypes(conf)

    def split(images: int, number: int) -> InMemory:
        labels = shuffled(images, conf.seed, number) % conf.classes
        return InMemory(_MadeUp(conf, prototypes, labels, number), labels, normalise)

    return OpenData(
        describe(conf),
        split(conf.training_images, _SPLIT_TRAINING),
        split(conf.validation_images, _SPLIT_VALIDATION),
        augment=False,
        how="made up in memory",
    )


def prepare(conf: SyntheticConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    return without_files(describe(conf), pack)


class _MadeUp:
    def __init__(self, conf: SyntheticConf, prototypes: torch.Tensor, labels: NDArray[np.int64], split: int) -> None:
        import torch

        shape = (_BANK, conf.image * conf.image * conf.channels)
        # Sum of four uniform draws, scaled to deviation 1: nearly normal, and the same on every machine.
        even = draws(np.arange(shape[0] * shape[1], dtype=np.int64), 4, conf.seed, split, _SALT_NOISE).sum(1)
        noise = (even.reshape(shape) - 2) * np.sqrt(3) * conf.noise * 255
        self._parts = (
            prototypes,
            torch.from_numpy(noise.clip(-255, 255).astype(np.int16)).view(_BANK, conf.image, conf.image, conf.channels),
        )
        self._labels = torch.from_numpy(labels.copy())
        chosen = draws(np.arange(len(labels), dtype=np.int64), 1, conf.seed, split, _SALT_CHOICE)[:, 0] * _BANK
        self._chosen = torch.from_numpy(chosen.astype(np.int64))
        self._on: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}

    def gather(self, images: torch.Tensor, device: torch.device) -> torch.Tensor:
        import torch

        from aiperf.data.pixels import to_device

        if device not in self._on:
            self._on[device] = (self._parts[0].to(device), self._parts[1].to(device))
        prototypes, noise = self._on[device]
        which = to_device(self._labels[images], device), to_device(self._chosen[images], device)
        return (prototypes.index_select(0, which[0]) + noise.index_select(0, which[1])).clamp_(0, 255).to(torch.uint8)


def _prototypes(conf: SyntheticConf) -> torch.Tensor:
    """Return int16 (classes, height, width, channels) in 64..191: coarse random patterns, scaled up smoothly."""
    import torch

    count = conf.classes * conf.channels * _COARSE * _COARSE
    coarse = draws(np.arange(count, dtype=np.int64), 1, conf.seed, _SALT_PROTOTYPES).reshape(
        conf.classes, conf.channels, _COARSE, _COARSE
    )
    fine = torch.nn.functional.interpolate(
        torch.from_numpy(coarse).to(torch.float32), (conf.image, conf.image), mode="bilinear", align_corners=True
    )
    return (64 + 127 * fine).to(torch.int16).permute(0, 2, 3, 1).contiguous()
