"""Expected rate of each network of a run: a least-squares fit of the trials' rates to columns of the journal.

The rates are compared within each worker, and their slowest movements are left to the interval, so that the fit contains
neither a slow worker nor a disturbance of hours. Definition: docs/benchmark.md, "95 % interval".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aiperf.accounting.intervals import Real, Window

COMPONENTS = 2
"""Cosines of half a period and of one period in the window: the movements that the interval measures."""
FEWEST_NETWORKS = 8
LEAST_SQUARE = 1e-4
"""Minimum mean square of a column beside the columns before it, in natural logarithms: a variation of 1 %."""
LARGEST = 3.0
"""Limit of the logarithm of an expected rate."""

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Work:
    """Work intervals of a run as columns. Each index is one interval of one worker and one unit."""

    worker: Whole
    unit: Whole
    """Number of the unit of the sample: of the trial, or of the epoch in a run of one trial."""
    start: Real
    end: Real
    flops: Real
    networks: Real | None = None
    """Natural logarithms of training operations per image, parameters and batch, by unit: (units, 3). None for one network."""


def relative_expected_rates(work: Work, inside: Window) -> Real | None:
    """Return the expected rate of each interval's network ÷ that of the run's mean network. None for too few networks."""
    if work.networks is None:
        return None
    is_used = (work.end > inside.start) & (work.start < inside.end) & (work.end > work.start) & (work.flops > 0)
    pairs, row = np.unique(np.stack([work.worker[is_used], work.unit[is_used]]), axis=1, return_inverse=True)
    worker, networks = np.unique(pairs[0], return_inverse=True)[1], work.networks[pairs[1]]
    if len(np.unique(networks, axis=0)) < FEWEST_NETWORKS:
        return None
    length = (work.end - work.start)[is_used]
    seconds = np.asarray(np.bincount(row.ravel(), length), dtype=np.float64)
    middle = np.bincount(row.ravel(), length * (work.start + work.end)[is_used] / 2) / seconds
    rate = np.log(np.bincount(row.ravel(), work.flops[is_used]) / seconds)
    phase = math.pi * (middle - inside.start) / inside.seconds
    columns = [np.cos(number * phase) for number in range(1, COMPONENTS + 1)] + list(networks.T)

    def within_worker(column: Real) -> Real:
        return np.asarray(column - (np.bincount(worker, seconds * column) / np.bincount(worker, seconds))[worker])

    fitted = _coefficients(list(map(within_worker, columns)), within_worker(rate), seconds)[COMPONENTS:]
    mean = seconds @ networks / seconds.sum()
    exponent = np.clip((work.networks - mean) @ fitted, -LARGEST, LARGEST)[work.unit]
    return np.asarray(np.exp(exponent), dtype=np.float64)


def _coefficients(columns: list[Real], values: Real, weight: Real) -> Real:
    """Weighted least squares by Gram-Schmidt, column after column. 0 for a column without a variation of its own."""
    found, kept = np.zeros(len(columns)), list[tuple[Real, Real]]()
    for column, own in zip(columns, np.eye(len(columns)), strict=True):
        for before, made_of in kept:
            part = (weight @ (column * before)) / (weight @ before**2)
            column, own = column - part * before, own - part * made_of
        if weight @ column**2 > LEAST_SQUARE * weight.sum():
            kept.append((column, own))
            found += (weight @ (column * values)) / (weight @ column**2) * own
    return found
