"""CIFAR-10: its published binary version, or (a part of) it as class folders of image files."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aiperf.data.dataset_config import Cifar10Conf
from aiperf.data.description import DataSet, PrepareReport, without_files
from aiperf.data.files import cifar10
from aiperf.data.files.index import of_files
from aiperf.data.files.samples import contents_of
from aiperf.data.sets import images
from aiperf.data.survey import require_fingerprint, root_of

if TYPE_CHECKING:
    from rich.console import Console

    from aiperf.data.opened import OpenData

FILES = (*cifar10.TRAINING_FILES, cifar10.VALIDATION_FILE)


def describe(conf: Cifar10Conf) -> DataSet:
    root = root_of(conf)
    if (folder := cifar10.find(root)) is None:
        return images.describe(conf)
    fingerprint = of_files(root, [folder / name for name in FILES])
    require_fingerprint(conf, fingerprint)
    contents = contents_of((name, hashlib.sha256((folder / name).read_bytes()).hexdigest()) for name in FILES)
    return replace(conf.published(), fingerprint=fingerprint, contents=contents)


def open_data(conf: Cifar10Conf, cores: int | None) -> OpenData:
    folder = cifar10.find(root_of(conf))
    if folder is None:
        return images.open_data(conf, cores)
    import torch

    from aiperf.data.inmemory import InMemory, PixelsInMemory
    from aiperf.data.opened import OpenData
    from aiperf.data.pixels import Normaliser

    description = describe(conf)
    labels = np.concatenate([cifar10.labels(folder / name) for name in FILES])
    stored = torch.from_numpy(np.concatenate([cifar10.pixels(folder / name) for name in FILES]))
    normalise = Normaliser(32, description.mean, description.std)
    cut = description.training_images
    return OpenData(
        description,
        InMemory(PixelsInMemory(stored[:cut]), labels[:cut], normalise, padding=4),
        InMemory(PixelsInMemory(stored[cut:]), labels[cut:], normalise),
        augment=conf.augment,
        how="pixels in memory",
    )


def prepare(conf: Cifar10Conf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    folder = cifar10.find(root_of(conf))
    if folder is None:
        return images.prepare(conf, pack, out, checksums)
    report = without_files(describe(conf), pack)
    for name in FILES:
        cifar10.labels(folder / name)
    return replace(report, remarks=(f"the {len(FILES)} files have the right sizes and labels",))
