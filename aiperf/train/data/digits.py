"""The handwritten digits that ship inside scikit-learn, with a split that never changes; fewer of them, or wrong labels, on wish."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.train.data.conf import DigitsConf
from aiperf.train.data.description import DIGITS
from aiperf.train.data.errors import MissingData
from aiperf.train.data.inmemory import InMemory, Stored
from aiperf.train.data.order import draws
from aiperf.train.data.pixels import Normaliser

# Constants: the split, the choice of fewer images and which labels are wrong are part of the set's definition.
_SPLIT_SEED, _FEWER_SEED, _NOISE_SEED = 2020, 2021, 2022
_GREYS = 16  # pixels are 0..16


def split(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the training and of the validation images: a fifth of every class (largest remainders first) validates."""
    validates = np.zeros(len(labels), np.bool_)
    validates[spread(labels, DIGITS.validation_images, _SPLIT_SEED)] = True
    return np.nonzero(~validates)[0], np.nonzero(validates)[0]


def spread(labels: NDArray[np.int64], images: int, seed: int) -> NDArray[np.int64]:
    """Numbers of so many images, drawn from every class in its share of all; largest remainders first."""
    exact = np.bincount(labels) * images / len(labels)
    wanted = np.floor(exact).astype(np.int64)
    for label in np.argsort(wanted - exact, kind="stable")[: images - wanted.sum()]:
        wanted[label] += 1
    lot = draws(np.arange(len(labels), dtype=np.int64), 1, seed)[:, 0]
    members = [np.nonzero(labels == label)[0] for label in range(len(wanted))]
    return np.concatenate([of[np.argsort(lot[of], kind="stable")[:count]] for of, count in zip(members, wanted, strict=True)])


def mislabelled(labels: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """The labels as they are given to training: that share of them (to the nearest image) is another class, each as likely."""
    lot, other = draws(np.arange(len(labels), dtype=np.int64), 2, _NOISE_SEED).T
    wrong = np.argsort(lot, kind="stable")[: round(share * len(labels))]
    given = labels.copy()
    given[wrong] = (labels[wrong] + 1 + (other[wrong] * (DIGITS.classes - 1)).astype(np.int64)) % DIGITS.classes
    return given


def read() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Images (1797, 8, 8), grey values 0..16, and labels, as sklearn.datasets.load_digits gives them.

    Read from scikit-learn's own file: importing the package would take every rank over a second of a run's start.
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise MissingData("the digits ship inside scikit-learn, which is not installed: make setup")
    with gzip.open(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as lines:
        table = np.loadtxt(lines, delimiter=",")
    return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)


def open_splits(conf: DigitsConf) -> tuple[InMemory, InMemory]:
    """Training and validation, in memory."""
    images, labels = read()
    pixels = torch.from_numpy(np.rint(images * (255 / _GREYS)).astype(np.uint8))[..., None]
    normalise = Normaliser(DIGITS.image, DIGITS.mean, DIGITS.std)
    training, validation = split(labels)
    training = np.sort(training[spread(labels[training], conf.training_images, _FEWER_SEED)])
    given = labels.copy()
    given[training] = mislabelled(labels[training], conf.label_noise)
    of_training, of_validation = (
        InMemory(Stored(pixels[torch.from_numpy(chosen)]), given[chosen], normalise) for chosen in (training, validation)
    )
    return of_training, of_validation
