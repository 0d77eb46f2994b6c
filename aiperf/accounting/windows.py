"""A stretch of a run's time, and which part of each interval of work lies in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """Seconds since the run began, on the driver's clock."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length; 0 where it never began."""
        return max(0.0, self.end - self.start)


def share_inside(start: Array, end: Array, inside: Window) -> Array:
    """Which part of each interval lies in a window, 0..1; an interval without length lies in it or not."""
    length = end - start
    overlap = np.minimum(end, inside.end) - np.maximum(start, inside.start)
    moment = ((end > inside.start) & (end <= inside.end)).astype(np.float64)
    return np.where(length > 0, np.clip(overlap, 0.0, None) / np.where(length > 0, length, 1.0), moment)
