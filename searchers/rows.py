"""Cache of one row of numbers for each trial. Rows never change, since lineages do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from searchers.distance import Array

ROWS_REMEMBERED: Final = 4096
"""Several times the trials of one proposal (searchers.history). A row of a ResNet-50 has 160 bytes."""


class TrialRows:
    """Rows of at most ROWS_REMEMBERED trials, or of one request if it has more."""

    def __init__(self, width: int) -> None:
        self._places: dict[int, int] = {}
        self._rows: Array = np.empty((0, width))

    def __len__(self) -> int:
        return len(self._places)

    def missing(self, numbers: Sequence[int]) -> list[int]:
        """Return the trials whose rows must be added before `of` is called: all of them if the full cache was cleared."""
        missing = [number for number in dict.fromkeys(numbers) if number not in self._places]
        if missing and len(self._places) + len(missing) > ROWS_REMEMBERED:
            self._places.clear()
            missing = list(dict.fromkeys(numbers))
        return missing

    def keep(self, numbers: Sequence[int], rows: Array) -> None:
        """Add one row for each of these trials. None of them has a row yet."""
        end = len(self._places) + len(numbers)
        if end > len(self._rows):
            # twice the size, since each proposal adds one or two rows
            grown = np.empty((max(end, min(2 * end, ROWS_REMEMBERED)), self._rows.shape[1]))
            grown[: len(self._places)] = self._rows[: len(self._places)]
            self._rows = grown
        self._rows[len(self._places) : end] = rows
        self._places.update(zip(numbers, range(len(self._places), end), strict=True))

    def of(self, numbers: Sequence[int]) -> Array:
        """Return a copy of the rows of these trials, in this order. Raises KeyError for a missing row."""
        places = [self._places[number] for number in numbers]
        return self._rows[np.array(places, dtype=np.intp)]
