"""Networks of one run combined with the batch sizes of another, to separate the effects of networks and batch sizes.

Each image of the first run gets the batch size that the second run had at the same fraction of its images. The order of time
matters because networks and batch sizes change during a run.
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
    """Networks with batch sizes, one pair per row. n rows."""

    part: Real
    """Share of all images, shape (n,). The sum is 1."""
    operations: Real
    """Operations per image, shape (n,)."""
    content: Real
    """Content of a step per image, shape (n, 5)."""
    cells: tuple[Cell, ...]

    def log_rate(self, model: SpeedModel) -> float:
        """Return ln of the operations per busy accelerator-second, on a machine with mean slowness."""
        seconds = model.seconds(self.content, self.cells)
        return log(float(self.part @ self.operations) / float(self.part @ seconds))


Mixtures = dict[tuple[int, int], Mixture]
"""Mixtures by (run of the networks, run of the batch sizes)."""


def mixtures(runs: Sequence[RunWork]) -> Mixtures:
    """Return the mixtures of all pairs of runs."""
    return {
        (first, second): mixture(one.trials, other.trials)
        for first, one in enumerate(runs)
        for second, other in enumerate(runs)
    }


def mixture(networks: Sequence[TrialWork], batches: Sequence[TrialWork]) -> Mixture:
    """Return the mixture of two runs, each with at least one trial. A row ends where a trial of either run ends."""
    edges, first, second = _cut(networks, batches)
    rows = [(networks[one], batches[other].batch) for one, other in zip(first, second, strict=True)]
    return Mixture(
        part=np.diff(edges),
        operations=np.array([trial.operations / trial.images for trial, _ in rows]),
        content=np.array([content_of_an_image(trial, batch) for trial, batch in rows]),
        cells=tuple((trial.network, batch) for trial, batch in rows),
    )


def _cut(networks: Sequence[TrialWork], batches: Sequence[TrialWork]) -> tuple[Real, list[int], list[int]]:
    """Return the edges from 0 to 1, shape (n + 1,), and the trial index of each run in each interval between them."""
    one, other = _ends(networks), _ends(batches)
    edges = np.unique(np.concatenate([[0.0], one, other]))
    middles = (edges[1:] + edges[:-1]) / 2
    return edges, np.searchsorted(one, middles).tolist(), np.searchsorted(other, middles).tolist()


def _ends(trials: Sequence[TrialWork]) -> Real:
    """Return the cumulative share of images at the end of each trial. The last is 1."""
    ends = np.cumsum([trial.images for trial in trials])
    ends /= ends[-1]
    ends[-1] = 1.0
    return ends
