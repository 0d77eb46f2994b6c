"""One run's networks at another's batches: what a run would have trained had only the one or the other been different.

Each image of the one run gets the batch that the other had at the same part of its images, in order of time: batches grow
and shrink over a run as networks do, since tuning begins in a later round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt

from aiperf.statistics.speed_model import Cell, SpeedModel, content_of_an_image
from aiperf.statistics.work_mix import RunWork, TrialWork

Real = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mixture:
    """Networks at batches, one a row."""

    part: Real
    """Of all images; they add up to 1."""
    operations: Real
    """Of an image."""
    content: Real
    """Of an image's step, shape (n, 5)."""
    cells: tuple[Cell, ...]

    def log_rate(self, model: SpeedModel) -> float:
        """ln of the operations a busy accelerator-second, on a machine as slow as the mean of all."""
        seconds = model.seconds(self.content, self.cells)
        return log(float(self.part @ self.operations) / float(self.part @ seconds))


Mixtures = dict[tuple[int, int], Mixture]
"""By (run of the networks, run of the batches)."""


def mixtures(runs: Sequence[RunWork]) -> Mixtures:
    """Of each run's networks at each one's batches."""
    return {
        (first, second): mixture(one.trials, other.trials)
        for first, one in enumerate(runs)
        for second, other in enumerate(runs)
    }


def mixture(networks: Sequence[TrialWork], batches: Sequence[TrialWork]) -> Mixture:
    """Both runs are cut where either goes on to its next trial. Neither is empty."""
    edges, first, second = _cut(networks, batches)
    rows = [(networks[one], batches[other].batch) for one, other in zip(first, second, strict=True)]
    return Mixture(
        part=np.diff(edges),
        operations=np.array([trial.operations / trial.images for trial, _ in rows]),
        content=np.array([content_of_an_image(trial, batch) for trial, batch in rows]),
        cells=tuple((trial.network, batch) for trial, batch in rows),
    )


def _cut(networks: Sequence[TrialWork], batches: Sequence[TrialWork]) -> tuple[Real, list[int], list[int]]:
    """Edges from 0 to 1 and, of each piece between two, the trial of either run that it lies in."""
    one, other = _ends(networks), _ends(batches)
    edges = np.unique(np.concatenate([[0.0], one, other]))
    middles = (edges[1:] + edges[:-1]) / 2
    return edges, np.searchsorted(one, middles).tolist(), np.searchsorted(other, middles).tolist()


def _ends(trials: Sequence[TrialWork]) -> Real:
    """Where each trial's images end, as a part of all; the last at 1."""
    ends = np.cumsum([trial.images for trial in trials])
    ends /= ends[-1]
    ends[-1] = 1.0
    return ends
