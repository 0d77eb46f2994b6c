"""Part of a run's time, and the share of each interval of work inside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """Start and end in seconds since the start of the run, on the driver's clock."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Length in seconds. 0 if the window never began."""
        return max(0.0, self.end - self.start)


def share_inside(start: Array, end: Array, inside: Window) -> Array:
    """Return the share of each interval inside a window, 0..1. For an interval of length 0 the share is 0 or 1."""
    length = end - start
    overlap = np.minimum(end, inside.end) - np.maximum(start, inside.start)
    moment = ((end > inside.start) & (end <= inside.end)).astype(np.float64)
    return np.where(length > 0, np.clip(overlap, 0.0, None) / np.where(length > 0, length, 1.0), moment)
