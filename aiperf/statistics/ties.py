"""Ties of a list: entries that the data cannot separate.

Ties are not transitive: A and B may be tied, B and C too, but A and C not. So each entry gets the range of its possible places.
It also gets a group. A group starts with its best entry and ends before the first entry that is surely worse than that one. An
entry may therefore be tied with an entry of the next group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aiperf.statistics.estimate import LEVEL, Estimate

Real = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlaceRange:
    """Places of one entry."""

    place: int
    """Place by the figure only, from 1. Equal figures share a place."""
    best_place: int | None
    """1 + number of surely better entries. None if the entry's uncertainty is unknown."""
    worst_place: int | None
    """Number of entries that are not surely worse, including itself. None as for `best_place`."""
    group: int | None
    """Group from 1, whose entries are tied with its best. None as for `best_place`."""


def ties(entries: Sequence[tuple[float, Estimate | None]], *, more_is_better: bool = True) -> tuple[PlaceRange, ...]:
    """Return the places of entries, in their order. Each entry is (figure, uncertainty or None).

    Each pair is tested by Welch's t, with Holm's step-down (1979) over all pairs: at most 5 of 100 lists separate a pair that
    is equal. An entry without an uncertainty is not compared. Its range and group are None, and it widens the ranges of others.
    """
    values = np.array([value for value, _ in entries], dtype=np.float64)
    if not more_is_better:
        values = -values
    known = np.array([index for index, (_, estimate) in enumerate(entries) if estimate is not None], dtype=np.int64)
    estimates = [estimate for _, estimate in entries if estimate is not None]
    apart = surely_apart(estimates)
    better = apart & (values[known][:, None] > values[known][None, :])  # [i, j]: i is surely better than j
    unknown = len(entries) - len(known)
    groups = _groups(values[known], better)
    standings: list[PlaceRange] = [
        PlaceRange(1 + int((values > value).sum()), None, None, None) for value in values.tolist()
    ]
    for row, index in enumerate(known.tolist()):
        standings[index] = PlaceRange(
            place=standings[index].place,
            best_place=1 + int(better[:, row].sum()),
            worst_place=len(known) - int(better[row].sum()) + unknown,
            group=groups[row],
        )
    return tuple(standings)


def surely_apart(estimates: Sequence[Estimate]) -> npt.NDArray[np.bool_]:
    """Return True at [i, j] if the two differ, at 5 % over all pairs together. Shape (n, n), symmetric."""
    from scipy.special import stdtr

    size = len(estimates)
    apart = np.zeros((size, size), dtype=np.bool_)
    if size < 2:
        return apart
    first, second = np.triu_indices(size, 1)
    value = np.array([each.value for each in estimates])
    variance = np.array([each.standard_error**2 for each in estimates])
    freedom = np.array([each.freedom for each in estimates], dtype=np.float64)
    step = np.abs(value[first] - value[second])
    both = variance[first] + variance[second]
    is_certain = both == 0
    # Share of the first variance. Squares of the variances themselves could underflow.
    part = variance[first] / np.where(is_certain, 1.0, both)
    welch = 1 / (part**2 / freedom[first] + (1 - part) ** 2 / freedom[second])
    t = np.where(is_certain, np.where(step > 0, np.inf, 0.0), step / np.sqrt(np.where(is_certain, 1.0, both)))
    p_values = 2 * stdtr(welch, -t)
    is_apart = holm(np.asarray(p_values, dtype=np.float64), 1 - LEVEL)
    apart[first, second] = apart[second, first] = is_apart
    return apart


def holm(p_values: Real, level: float) -> npt.NDArray[np.bool_]:
    """Return True for each rejected hypothesis, at `level` for all together (Holm 1979).

    The p-values are compared in ascending order with level ÷ number of remaining ones, up to the first that is larger.
    """
    order = np.argsort(p_values, kind="stable")
    is_kept = p_values[order] > level / (len(p_values) - np.arange(len(p_values)))
    is_rejected = np.zeros(len(p_values), dtype=np.bool_)
    is_rejected[order[: int(np.argmax(is_kept)) if is_kept.any() else len(p_values)]] = True
    return is_rejected


def _groups(values: Real, better: npt.NDArray[np.bool_]) -> list[int]:
    groups = [0] * len(values)
    leader, group = -1, 0
    for index in np.argsort(-values, kind="stable").tolist():
        if leader < 0 or better[leader, index]:
            leader, group = index, group + 1
        groups[index] = group
    return groups
