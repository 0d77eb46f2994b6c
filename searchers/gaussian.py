"""Gaussian-process regression over descriptors of architectures, for search under a bounded, messy history.

Equal architectures, equal results and results that differ for no reason are ordinary here: noise stands on the diagonal, and
is never fitted below a floor, so the matrix is never singular. Trials without a result take part with their place alone:
they make the regression surer of what lies near them and change no mean (Desautels, Krause & Burdick 2014, GP-BUCB).
Linear algebra runs on one BLAS thread: at these sizes two are slower, and one gives the same bits on every run.
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
"""Length scales that are tried, in median distances between the architectures seen."""
NOISES: Final = (0.1, 0.3, 0.8)
"""Variances of the noise that are tried, in variances of the (normalised) results; the least is the floor."""
SLOPES: Final = (0.05, 1.0)
"""Weights of the linear part that are tried: without it, the mean of anything larger than what was seen would fall back to
the average, where growth that paid so far is the best guess of what pays."""
FITTED_ON: Final = 96
"""Architectures that these three are chosen by, spread evenly over those seen."""

_COLUMNS: Final = 32
_OUTLIERS: Final = 3.0  # robust standard deviations beyond which a result is drawn in


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Of the kernel, in the units of descriptors and of normalised results."""

    length: float
    noise: float
    slope: float


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is believed of all architectures, given some results."""

    seen: Array
    """(n, d): finished first, then those without a result."""
    factor: Array
    """(n, n): the lower Cholesky factor of their covariance."""
    weights: Array
    """(finished,): the factor's inverse times the normalised results."""
    hyperparameters: Hyperparameters

    def upper_bound(self, descriptors: Array, beta: float) -> Array:
        """Mean + beta · standard deviation (without noise), of normalised results: (m, d) → (m,)."""
        if not len(self.seen):
            return np.zeros(len(descriptors))
        with one_blas_thread():
            solved = _solved(self.factor, _kernel(self.seen, descriptors, self.hyperparameters))
            # the first rows are the finished ones', whose factor is the first block of the factor of all
            mean = self.weights @ solved[: len(self.weights)]
            own = 1.0 + self.hyperparameters.slope * (descriptors * descriptors).sum(axis=1)
            variance = np.maximum(own - (solved * solved).sum(axis=0), 0.0)
        return np.asarray(mean + beta * np.sqrt(variance), dtype=np.float64)


def posterior(finished: Array, results: Array, without_result: Array) -> Posterior:
    """Regression on `finished` (n, d) with `results` (n,); `without_result` (p, d) are places alone."""
    with one_blas_thread():
        normal = normalised(results)
        hyperparameters = _fitted(finished, normal)
        seen = np.concatenate([finished, without_result])
        factor = _factor(seen, hyperparameters)
        count = len(finished)
        weights = solve_triangular(factor[:count, :count], normal, lower=True, check_finite=False) if count else normal
        return Posterior(seen, factor, weights, hyperparameters)


def normalised(results: Array) -> Array:
    """Robust standard scores: from the median, in 1.4826 · median absolute deviations, drawn in to ±3 of them.

    Where more than half of the results are equal the standard deviation stands in; where all are, all scores are 0.
    """
    if not len(results):
        return results
    centred = results - np.median(results)
    scale = 1.4826 * float(np.median(np.abs(centred))) or float(centred.std())
    # below a billionth the differences are rounding, and no scale
    if scale < 1e-9:
        return np.zeros_like(results)
    return np.asarray(np.clip(centred / scale, -_OUTLIERS, _OUTLIERS), dtype=np.float64)


def one_blas_thread() -> AbstractContextManager[object]:
    """A context in which BLAS uses one thread, whatever the process uses elsewhere."""
    limiter: AbstractContextManager[object] = _blas().limit(limits=1, user_api="blas")
    return limiter


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    # looking through the process's libraries takes a millisecond: once
    return ThreadpoolController()


def _kernel(left: Array, right: Array, hyperparameters: Hyperparameters) -> Array:
    covariance = products(left, right)
    _make_covariance(covariance, left, right, hyperparameters)
    return covariance


def _make_covariance(scalar: Array, left: Array, right: Array, hyperparameters: Hyperparameters) -> None:
    """Turns the scalar products of descriptors into their covariance, in place."""
    similar = similarity(squared_distances(left, right, scalar), hyperparameters.length)
    scalar *= hyperparameters.slope
    scalar += similar


def _factor(seen: Array, hyperparameters: Hyperparameters) -> Array:
    covariance = products(seen, seen)
    # only what LAPACK reads, the diagonal and what is below it, some columns at a time so that they stay in the cache
    for begin in range(0, len(seen), _COLUMNS):
        end = begin + _COLUMNS
        _make_covariance(covariance[begin:, begin:end], seen[begin:], seen[begin:end], hyperparameters)
    covariance.ravel("K")[:: len(seen) + 1] += hyperparameters.noise
    return _cholesky(covariance)


def _cholesky(covariance: Array) -> Array:
    """The lower factor, in the place of the covariance where its columns lie one after the other (`products`); what stands
    above the diagonal is not read.

    LAPACK without scipy's wrapper, which for the small matrices of `_fitted` takes longer than their arithmetic.
    """
    if not len(covariance):
        return covariance
    factor, offence = dpotrf(covariance, lower=1, overwrite_a=1, clean=1)
    if offence:
        raise LinAlgError(f"a covariance is positive definite; this one of {len(covariance)} is not at {offence}")
    return np.asarray(factor, dtype=np.float64)


def _solved(factor: Array, right: Array) -> Array:
    """The inverse of a lower factor whose columns lie one after the other, times `right`: (n, n), (n, …) → (n, …)."""
    if not right.size:
        return right
    solved, offence = dtrtrs(factor, right, lower=1, overwrite_b=0)
    assert not offence, "a Cholesky factor has no zero on its diagonal"
    return np.asarray(solved, dtype=np.float64)


def _fitted(finished: Array, normal: Array) -> Hyperparameters:
    """The likeliest of LENGTHS × NOISES × SLOPES given some of the finished ones; of equals the first."""
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
                # rounded, so that processors that differ in the last bits choose the same
                diagonal = factor.ravel("K")[:: len(some) + 1]
                likelihood = round(float(-0.5 * weights @ weights - np.log(diagonal).sum()), 6)
                if likelihood > best_likelihood:
                    best, best_likelihood = Hyperparameters(length * median, noise, slope), likelihood
    return best
