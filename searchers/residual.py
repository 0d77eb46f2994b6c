"""Partial residuals: the effect of batch size and kernel size on the error, without the effect of growth.

Accuracy rises with the size of networks, by far more than tuning adds. Without this correction, tuning would prefer the sizes
that were drawn last. A ridge regression of log(error) on growth, its square, and the tuned sizes estimates the effect of
growth. The sizes are inputs too, since they change together with growth. The residual is log(error) without the part of growth,
so that it keeps the part of the sizes and the noise, as in added-variable plots.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from searchers.distance import KINDS_OF_GROWTH, WITHOUT_KERNELS, Array
from searchers.gaussian import one_blas_thread
from searchers.history import History

_LEAST_ERROR: Final = 1e-3
"""Smaller errors are set to this value, since their logarithms would dominate."""
_RIDGE: Final = 0.1
_DECIMALS: Final = 9  # floating point differs in the last bits between processors: differences below 1e-9 are ties


def residuals(history: History, numbers: tuple[int, ...]) -> dict[int, float]:
    """Return for each finished trial the expected log(error) from its growth minus the measured log(error)."""
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
    """Return growth by kind and stage, and the square of its sum, one row per trial."""
    rows = history.descriptors(numbers)
    growth = rows.reshape(len(numbers), KINDS_OF_GROWTH, -1)[:, WITHOUT_KERNELS].reshape(len(numbers), -1)
    return np.column_stack([growth, growth.sum(axis=1) ** 2])


def _sizes(history: History, numbers: tuple[int, ...]) -> Array:
    """Return log2 of batch and kernel, and their squared deviations from the mean, for an optimum within the range."""
    sizes = np.log2([[history.batch_size(number), history.own_kernel(number) or 1] for number in numbers])
    return np.column_stack([sizes, (sizes - sizes.mean(axis=0)) ** 2])
