"""What batch size and kernel size gave a trial, beyond what growth in depth, width and branches explains.

Accuracy rises as networks grow, by far more than tuning adds: told as it is, it praises whatever was drawn last. A ridge
regression of the logarithm of the error takes growth out, with its square for returns that diminish. The tuned sizes are
inputs of the same regression, since both change together in a run: where they are left out, growth is credited with what
they gave. What is told is the error less growth's part alone, so it keeps the sizes' part and the noise (a partial
residual, as in added-variable plots).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from searchers.distance import KINDS_OF_GROWTH, WITHOUT_KERNELS, Array
from searchers.gaussian import one_blas_thread
from searchers.history import History

_LEAST_ERROR: Final = 1e-3
"""Errors below it are taken for it: their logarithms would drown all others'."""
_RIDGE: Final = 0.1
_DECIMALS: Final = 9  # floating point differs in the last bits between processors: differences below 1e-9 are ties


def residuals(history: History, numbers: tuple[int, ...]) -> dict[int, float]:
    """Of each finished trial by how much the logarithm of its error lies below what its growth lets expect."""
    if not numbers:
        return {}
    grown = _growth(history, numbers)
    inputs = np.column_stack([grown, _sizes(history, numbers)])
    inputs -= inputs.mean(axis=0)
    errors = np.log(np.maximum(_LEAST_ERROR, [1.0 - history.accuracies[number] for number in numbers]))
    errors -= errors.mean()
    with one_blas_thread():
        normal = inputs.T @ inputs + _RIDGE * np.eye(inputs.shape[1])
        weights = np.linalg.solve(normal, inputs.T @ errors)
        found = inputs[:, : grown.shape[1]] @ weights[: grown.shape[1]] - errors
    return {number: round(float(one), _DECIMALS) for number, one in zip(numbers, found, strict=True)}


def _growth(history: History, numbers: tuple[int, ...]) -> Array:
    """Growth by kind and stage, and the square of its sum."""
    rows = history.descriptors(numbers)
    growth = rows.reshape(len(numbers), KINDS_OF_GROWTH, -1)[:, WITHOUT_KERNELS].reshape(len(numbers), -1)
    return np.column_stack([growth, growth.sum(axis=1) ** 2])


def _sizes(history: History, numbers: tuple[int, ...]) -> Array:
    """Batch and kernel in powers of two, and their squares about the mean, since a best size may lie between."""
    sizes = np.log2([[history.batch_size(number), history.own_kernel(number) or 1] for number in numbers])
    return np.column_stack([sizes, (sizes - sizes.mean(axis=0)) ** 2])
