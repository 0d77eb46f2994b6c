"""The handwritten digits that ship inside scikit-learn, with a split that never changes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from aiperf.train.data.description import DIGITS
from aiperf.train.data.inmemory import InMemory, Stored
from aiperf.train.data.order import draws
from aiperf.train.data.pixels import Normaliser

_SPLIT_SEED = 2020  # a constant: the split is part of the set's definition
_GREYS = 16  # pixels are 0..16


def split(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the training and of the validation images: a fifth of every class (largest remainders first) validates."""
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


def open_splits() -> tuple[InMemory, InMemory]:
    """Training and validation, in memory."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = torch.from_numpy(np.rint(digits.images * (255 / _GREYS)).astype(np.uint8))[..., None]
    labels = digits.target.astype(np.int64)
    normalise = Normaliser(DIGITS.image, DIGITS.mean, DIGITS.std)
    training, validation = (
        InMemory(Stored(pixels[torch.from_numpy(chosen)]), labels[chosen], normalise) for chosen in split(labels)
    )
    return training, validation
