"""Handwritten digits from scikit-learn as a data set in memory, with a fixed split and optional noise."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aiperf.data.dataset_config import DigitsConf
from aiperf.data.description import DIGITS, DataSet, PrepareReport, without_files
from aiperf.data.errors import MissingData
from aiperf.data.files.index import of_options
from aiperf.data.files.samples import contents_of
from aiperf.data.visiting_order import draws

if TYPE_CHECKING:
    from rich.console import Console

    from aiperf.data.opened import OpenData

# Constants: the split, and the noise of the validation images, are part of the set's definition.
_SPLIT_SEED, _NOISE_SEED = 2020, 2021
_GREYS = 16  # pixels are 0..16


def split(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of training and validation images. About a fifth of every class validates, 360 images in all."""
    exact = np.bincount(labels) * DIGITS.validation_images / len(labels)
    wanted = np.floor(exact).astype(np.int64)
    for label in np.argsort(wanted - exact, kind="stable")[: DIGITS.validation_images - wanted.sum()]:
        wanted[label] += 1
    lot = draws(np.arange(len(labels), dtype=np.int64), 1, _SPLIT_SEED)[:, 0]
    validates = np.zeros(len(labels), np.bool_)
    for label, count in enumerate(wanted):
        members = np.nonzero(labels == label)[0]
        validates[members[np.argsort(lot[members], kind="stable")[:count]]] = True
    return np.nonzero(~validates)[0], np.nonzero(validates)[0]


def read() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return images (1797, 8, 8) and labels from scikit-learn's own file: importing the package takes a rank over a second."""
    with gzip.open(_file(), "rt") as lines:
        table = np.loadtxt(lines, delimiter=",")
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)


def _file() -> Path:
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise MissingData("the digits are part of scikit-learn, which is not installed: run `make setup`")
    return Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"


def describe(conf: DigitsConf) -> DataSet:
    table = hashlib.sha256(gzip.decompress(_file().read_bytes())).hexdigest()
    contents = contents_of([("digits.csv", table)])
    return replace(DIGITS, noise=conf.noise, fingerprint=of_options(conf), contents=contents)


def open_data(conf: DigitsConf, cores: int | None) -> OpenData:
    import torch

    from aiperf.data.inmemory import InMemory, PixelsInMemory
    from aiperf.data.opened import OpenData
    from aiperf.data.pixels import Normaliser, PixelNoise

    images, labels = read()
    pixels = torch.from_numpy(np.rint(images * (255 / _GREYS)).astype(np.uint8))[..., None]
    normalise = Normaliser(DIGITS.image, DIGITS.mean, DIGITS.std)
    training, validation = split(labels)
    to_train, to_validate = pixels[torch.from_numpy(training)], pixels[torch.from_numpy(validation)]
    noise = None
    if conf.noise:
        noise = PixelNoise((DIGITS.image, DIGITS.image, DIGITS.channels), conf.noise)
        to_validate = noise.added(to_validate, validation, _NOISE_SEED, 0)
    return OpenData(
        describe(conf),
        InMemory(PixelsInMemory(to_train), labels[training], normalise, conf.shift, noise, flips=False),
        InMemory(PixelsInMemory(to_validate), labels[validation], normalise),
        augment=conf.augment,
        how="8×8 pixels in memory",
    )


def prepare(conf: DigitsConf, pack: Path | None, out: Console, checksums: Path | None) -> PrepareReport:
    return without_files(describe(conf), pack)
