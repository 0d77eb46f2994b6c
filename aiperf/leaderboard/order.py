"""Places of runs by a figure, and the correlation of two orders."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def places(values: Sequence[float | None], *, is_less_better: bool = False) -> list[int | None]:
    """Return the place of each value, from 1. Equal values share a place. A missing value has no place.

    >>> places([3.0, 1.0, None, 3.0])
    [1, 3, None, 1]
    """
    known = sorted((value for value in values if value is not None), reverse=not is_less_better)
    first: dict[float, int] = {}
    for place, value in enumerate(known, 1):
        first.setdefault(value, place)
    return [None if value is None else first[value] for value in values]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Kendall's τ-b (1945), which handles ties: 1 for equal orders, −1 for opposite ones.

    None if all values of one order are equal.

    >>> rank_correlation([1, 2, 3], [1, 3, 2])
    0.3333333333333333
    """
    ours = np.sign(np.subtract.outer(np.asarray(first, np.float64), np.asarray(first, np.float64)))
    theirs = np.sign(np.subtract.outer(np.asarray(second, np.float64), np.asarray(second, np.float64)))
    untied = float(np.count_nonzero(ours)) * float(np.count_nonzero(theirs))
    return float((ours * theirs).sum() / np.sqrt(untied)) if untied else None
