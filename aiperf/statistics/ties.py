"""Which entries of a list the data cannot tell apart.

"Cannot be told apart" does not carry over: A and B may be inseparable, B and C too, and A and C not. So each entry gets the
range of places that it may hold, which needs no grouping; and groups, which do: a group is opened by its best entry, and
holds all below it, down to the first that is surely worse than that best one. An entry may therefore be inseparable from
one in the next group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aiperf.statistics.estimate import LEVEL, Estimate

Real = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Standing:
    """Of one entry, given in the order of the entries."""

    place: int
    """By the figure alone, from 1; equal figures share one."""
    best_place: int | None
    """1 + how many are surely better. None: the entry's own uncertainty is not known."""
    worst_place: int | None
    """How many are not surely worse, itself among them."""
    group: int | None
    """From 1; entries of a group are tied with its best. None: not known."""


def ties(entries: Sequence[tuple[float, Estimate | None]], *, more_is_better: bool = True) -> tuple[Standing, ...]:
    """Entries as (figure, what is known of its uncertainty).

    Each pair by Welch's t; all pairs at once by Holm's step-down (1979), so that in 95 of 100 lists no pair is called apart
    that is not. An entry without an uncertainty is compared with none: its places and group are None, and others may have
    it on either side.
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
    standings: list[Standing] = [
        Standing(1 + int((values > value).sum()), None, None, None) for value in values.tolist()
    ]
    for row, index in enumerate(known.tolist()):
        standings[index] = Standing(
            place=standings[index].place,
            best_place=1 + int(better[:, row].sum()),
            worst_place=len(known) - int(better[row].sum()) + unknown,
            group=groups[row],
        )
    return tuple(standings)


def surely_apart(estimates: Sequence[Estimate]) -> npt.NDArray[np.bool_]:
    """[i, j]: whether the two differ, at 5 % over all pairs together. Shape (n, n), symmetric."""
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
    part = variance[first] / np.where(
        is_certain, 1.0, both
    )  # of the first; squares of variances could be too small to be told
    welch = 1 / (part**2 / freedom[first] + (1 - part) ** 2 / freedom[second])
    t = np.where(is_certain, np.where(step > 0, np.inf, 0.0), step / np.sqrt(np.where(is_certain, 1.0, both)))
    p_values = 2 * stdtr(welch, -t)
    is_apart = holm(np.asarray(p_values, dtype=np.float64), 1 - LEVEL)
    apart[first, second] = apart[second, first] = is_apart
    return apart


def holm(p_values: Real, level: float) -> npt.NDArray[np.bool_]:
    """Which hypotheses fall, at `level` for all together (Holm 1979).

    p-values in order of size, each against level ÷ how many are left, to the first that stands.
    """
    order = np.argsort(p_values, kind="stable")
    stands = p_values[order] > level / (len(p_values) - np.arange(len(p_values)))
    falls = np.zeros(len(p_values), dtype=np.bool_)
    falls[order[: int(np.argmax(stands)) if stands.any() else len(p_values)]] = True
    return falls


def _groups(values: Real, better: npt.NDArray[np.bool_]) -> list[int]:
    groups = [0] * len(values)
    leader, group = -1, 0
    for index in np.argsort(-values, kind="stable").tolist():
        if leader < 0 or better[leader, index]:
            leader, group = index, group + 1
        groups[index] = group
    return groups
