"""Gaussian-process regression that predicts the accuracy of a network from its descriptor, on one reproducible BLAS thread.

The noise on the diagonal has a lower bound, which keeps the matrix regular. Trials without a result lower the variance near
them and do not change the mean (GP-BUCB, Desautels, Krause & Burdick 2014).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.linalg import LinAlgError, solve_triangular
from scipy.linalg.lapack import dpotrf, dtrtrs
from threadpoolctl import ThreadpoolController

from searchers.distance import Array, products, similarity, squared_distances

LENGTHS: Final = (0.5, 1.0, 2.0, 4.0)
"""Candidate length scales, in units of the median distance between the observed architectures."""
NOISES: Final = (0.1, 0.3, 0.8)
"""Candidate variances of the noise, in units of the variance of the results. The smallest is the lower bound."""
SLOPES: Final = (0.05, 1.0)
"""Candidate weights of the linear part. It extrapolates growth. Without it, the mean of larger architectures would fall back to
the average."""
FITTED_ON: Final = 96
"""Largest number of architectures to fit these three hyperparameters, spread evenly over the observed ones."""

_COLUMNS: Final = 32
_OUTLIERS: Final = 3.0  # results are clipped to this many robust standard deviations


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Hyperparameters of the covariance kernel, in the units of descriptors and of normalised results."""

    length: float
    noise: float
    slope: float


@dataclass(frozen=True, slots=True)
class Posterior:
    """Posterior distribution of the result of any architecture, given the observed trials."""

    seen: Array
    """Shape (n, d): descriptors of finished trials, then of those without a result."""
    factor: Array
    """Shape (n, n): lower Cholesky factor of their covariance."""
    weights: Array
    """Shape (finished,): inverse of the factor times the normalised results."""
    hyperparameters: Hyperparameters

    def upper_bound(self, descriptors: Array, beta: float) -> Array:
        """Mean + `beta` · standard deviation without the noise, (m, d) → (m,), in robust deviations from the median."""
        if not len(self.seen):
            return np.zeros(len(descriptors))
        with one_blas_thread():
            solved = _solved(self.factor, _kernel(self.seen, descriptors, self.hyperparameters))
            # the first rows are those of finished trials; their factor is the first block of the whole factor
            mean = self.weights @ solved[: len(self.weights)]
            own = 1.0 + self.hyperparameters.slope * (descriptors * descriptors).sum(axis=1)
            variance = np.maximum(own - (solved * solved).sum(axis=0), 0.0)
        return np.asarray(mean + beta * np.sqrt(variance), dtype=np.float64)


def posterior(finished: Array, results: Array, without_result: Array) -> Posterior:
    """Shapes: descriptors `finished` (n, d), accuracies `results` (n,), descriptors `without_result` (p, d)."""
    with one_blas_thread():
        normal = normalised(results)
        hyperparameters = _fitted(finished, normal)
        seen = np.concatenate([finished, without_result])
        factor = _factor(seen, hyperparameters)
        count = len(finished)
        weights = solve_triangular(factor[:count, :count], normal, lower=True, check_finite=False) if count else normal
        return Posterior(seen, factor, weights, hyperparameters)


def normalised(results: Array) -> Array:
    """Return robust standard scores of results: (result − median) / (1.4826 · median absolute deviation), clipped to ±3.

    If more than half of the results are equal, the scale is the standard deviation. If all are equal, all scores are 0.
    """
    if not len(results):
        return results
    centred = results - np.median(results)
    scale = 1.4826 * float(np.median(np.abs(centred))) or float(centred.std())
    # differences below 1e-9 are rounding errors
    if scale < 1e-9:
        return np.zeros_like(results)
    return np.asarray(np.clip(centred / scale, -_OUTLIERS, _OUTLIERS), dtype=np.float64)


def one_blas_thread() -> AbstractContextManager[object]:
    limiter: AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return limiter


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    # the search for BLAS libraries takes a millisecond
    return ThreadpoolController()


def _kernel(left: Array, right: Array, hyperparameters: Hyperparameters) -> Array:
    covariance = products(left, right)
    _make_covariance(covariance, left, right, hyperparameters)
    return covariance


def _make_covariance(scalar: Array, left: Array, right: Array, hyperparameters: Hyperparameters) -> None:
    similar = similarity(squared_distances(left, right, scalar), hyperparameters.length)
    scalar *= hyperparameters.slope
    scalar += similar


def _factor(seen: Array, hyperparameters: Hyperparameters) -> Array:
    covariance = products(seen, seen)
    # only the lower triangle, which LAPACK reads, in blocks of columns that fit into the cache
    for begin in range(0, len(seen), _COLUMNS):
        end = begin + _COLUMNS
        _make_covariance(covariance[begin:, begin:end], seen[begin:], seen[begin:end], hyperparameters)
    covariance.ravel("K")[:: len(seen) + 1] += hyperparameters.noise
    return _cholesky(covariance)


def _cholesky(covariance: Array) -> Array:
    """LAPACK is called without scipy's wrapper, which is slow for small matrices. `covariance` is overwritten."""
    if not len(covariance):
        return covariance
    factor, offence = dpotrf(covariance, lower=1, overwrite_a=1, clean=1)
    if offence:
        raise LinAlgError(
            f"a covariance must be positive definite. This one of {len(covariance)} rows is not, at {offence}: report this "
            "as a defect of AIPerf and attach the journal"
        )
    return np.asarray(factor, dtype=np.float64)


def _solved(factor: Array, right: Array) -> Array:
    """Return the inverse of a lower factor in column order times `right`: (n, n), (n, …) → (n, …)."""
    if not right.size:
        return right
    solved, offence = dtrtrs(factor, right, lower=1, overwrite_b=0)
    assert not offence, "a Cholesky factor has no zero on its diagonal"
    return np.asarray(solved, dtype=np.float64)


def _fitted(finished: Array, normal: Array) -> Hyperparameters:
    """Return the hyperparameters of LENGTHS × NOISES × SLOPES with the highest likelihood. The first one wins a tie."""
    step = -(-len(finished) // FITTED_ON) or 1
    some, results = finished[::step], normal[::step]
    scalar = products(some, some)
    squares = squared_distances(some, some, scalar)
    between = squares[np.triu_indices_from(squares, 1)]
    between = between[between > 1e-9]
    median = float(np.sqrt(np.median(between))) if len(between) else 1.0
    if not results.any():
        return Hyperparameters(2.0 * median, NOISES[-1], SLOPES[0])
    linear = [slope * scalar for slope in SLOPES]
    best, best_likelihood = Hyperparameters(median, NOISES[0], SLOPES[0]), -np.inf
    for length in LENGTHS:
        smooth = similarity(squares, length * median)
        for slope, line in zip(SLOPES, linear, strict=True):
            without_noise = smooth + line
            for noise in NOISES:
                covariance = without_noise.copy("K")
                covariance.ravel("K")[:: len(some) + 1] += noise
                factor = _cholesky(covariance)
                weights = _solved(factor, results)
                # rounded, so that processors with different last bits make the same choice
                diagonal = factor.ravel("K")[:: len(some) + 1]
                likelihood = round(float(-0.5 * weights @ weights - np.log(diagonal).sum()), 6)
                if likelihood > best_likelihood:
                    best, best_likelihood = Hyperparameters(length * median, noise, slope), likelihood
    return best
