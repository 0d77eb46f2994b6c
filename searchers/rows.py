"""Rows of numbers that are made once for each trial and read for every proposal.

What stands in a row never changes, since a trial's lineage does not; so none can be stale, and forgetting one costs only the
making of it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from searchers.distance import Array

ROWS_REMEMBERED: Final = 4096
"""Several times what one proposal looks at (searchers.history); of ResNet-50 160 bytes each."""


class Rows:
    """The rows of at most ROWS_REMEMBERED trials, or of as many as were asked for at once."""

    def __init__(self, width: int) -> None:
        self._places: dict[int, int] = {}
        self._rows: Array = np.empty((0, width))

    def __len__(self) -> int:
        return len(self._places)

    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Those of these trials whose rows are still to be kept before `of` is asked.

        All of them, once more rows are kept than should be: then the others are forgotten.
        """
        missing = [number for number in dict.fromkeys(numbers) if number not in self._places]
        if missing and len(self._places) + len(missing) > ROWS_REMEMBERED:
            self._places.clear()
            missing = list(dict.fromkeys(numbers))
        return missing

    def keep(self, numbers: Sequence[int], rows: Array) -> None:
        """Takes in one row for each of these trials, none of which has one."""
        end = len(self._places) + len(numbers)
        if end > len(self._rows):
            # twice as many as needed: a run asks for one or two more with each proposal
            grown = np.empty((max(end, min(2 * end, ROWS_REMEMBERED)), self._rows.shape[1]))
            grown[: len(self._places)] = self._rows[: len(self._places)]
            self._rows = grown
        self._rows[len(self._places) : end] = rows
        self._places.update(zip(numbers, range(len(self._places), end), strict=True))

    def of(self, numbers: Sequence[int]) -> Array:
        """A copy of the rows of these trials, in this order; KeyError for one that was not kept."""
        places = [self._places[number] for number in numbers]
        return self._rows[np.array(places, dtype=np.intp)]
