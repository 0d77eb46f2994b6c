"""How long a network takes at a batch on each run's machine, learnt from the trials of all runs together.

A network that only one run trained has no speed on the other's machine: it is estimated from what its steps hold. Where
several runs trained the same network at the same batch, they are compared there directly, and the estimate carries the
rest. docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
import numpy.typing as npt

from aiperf.statistics.work_mix import RunWork, TrialWork

Real = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Cell = tuple[str, int]
"""A network at a batch."""

FEWEST_SHARED_CELLS = 3
SMALLEST_SHARED_PART = 0.1
"""Of all busy time: with so much of it in cells that several runs have, the machines are told from these alone. And of each
run's: with so much of it at batch sizes that all runs have, machines can be told from batches."""
MUCH_SHARED = 0.5
"""Of all busy time: so much is enough in whatever number of cells."""
SMALLEST_COST = 1e-6
ROUNDS = 12
"""Costs and machines are estimated in turn; it moves no more after a few."""
STILL = 1e-10
"""Of a logarithm: what moves less has come to rest."""


@dataclass(frozen=True, slots=True)
class SpeedModel:
    """Busy accelerator-seconds of an image: costs · content · the machine's slowness · the cell's own."""

    costs: Real
    """Shape (5,): of a step, an operation of convolutions, another operation, a parameter a step, a generation a step."""
    slowness: Real
    """Logarithm, one for each run, zero in the mean: what its machine takes against the others for equal steps."""
    peculiar: dict[Cell, float]
    """Logarithm: by how much a cell that several runs have lies beside the estimate."""
    shared_cells: int
    """That several runs have."""
    shared_part: float
    """Of the busy time of all runs, that in such cells."""
    is_direct: bool
    """Whether `slowness` was told from shared cells alone."""
    tells_batches: bool
    """Whether machines can be told from batches at all: not where each run has batch sizes that another never has."""

    def seconds(self, content: Real, cells: Sequence[Cell]) -> Real:
        """Of images of networks at batches, on a machine as slow as the mean of all. `content`: shape (n, 5)."""
        own = np.array([self.peculiar.get(cell, 0.0) for cell in cells])
        return np.asarray((content @ self.costs) * np.exp(own), dtype=np.float64)


def content_of_an_image(trial: TrialWork, batch: int) -> tuple[float, ...]:
    """What an image's share of a step holds: five numbers, as `SpeedModel.costs` has them."""
    tensor = trial.tensor_operations / trial.images
    other = (trial.operations - trial.tensor_operations) / trial.images
    return (1 / batch, tensor, other, trial.parameters / batch, trial.generation / batch)


@dataclass(frozen=True, slots=True)
class Trials:
    """Those of all runs as columns, one a trial."""

    runs: int
    of_run: Whole
    content: Real
    seconds: Real
    """Busy accelerator-seconds of an image."""
    weight: Real
    """Busy accelerator-seconds."""
    cells: tuple[Cell, ...]
    cell: Whole
    """Index into `cells`."""


def trials_of(runs: Sequence[RunWork]) -> Trials:
    """Of runs that each have one."""
    rows = [(index, trial) for index, run in enumerate(runs) for trial in run.trials]
    numbers: dict[Cell, int] = {}
    cell = [numbers.setdefault((trial.network, trial.batch), len(numbers)) for _, trial in rows]
    return Trials(
        runs=len(runs),
        of_run=np.array([index for index, _ in rows], dtype=np.int64),
        content=np.array([content_of_an_image(trial, trial.batch) for _, trial in rows]),
        seconds=np.array([trial.busy_seconds / trial.images for _, trial in rows]),
        weight=np.array([trial.busy_seconds for _, trial in rows]),
        cells=tuple(numbers),
        cell=np.array(cell, dtype=np.int64),
    )


def fit(trials: Trials, kept: npt.NDArray[np.bool_] | None = None) -> SpeedModel:
    """From all trials, or from those of some cells alone (`kept`: one for each cell; every run keeps a trial).

    Costs are not negative (non-negative least squares on relative deviations, each trial by its busy time).
    """
    is_kept = np.ones(len(trials.cell), dtype=np.bool_) if kept is None else kept[trials.cell]
    of_run, cell = trials.of_run[is_kept], trials.cell[is_kept]
    content, seconds, weight = trials.content[is_kept], trials.seconds[is_kept], trials.weight[is_kept]
    held = np.zeros((len(trials.cells), trials.runs))
    np.add.at(held, (cell, of_run), weight)
    is_shared = (held > 0).sum(axis=1) > 1
    shared_part = float(held[is_shared].sum() / held.sum())
    enough = SMALLEST_SHARED_PART if is_shared.sum() >= FEWEST_SHARED_CELLS else MUCH_SHARED
    is_direct = shared_part >= enough and _hang_together(held[is_shared])
    slowness = np.zeros(trials.runs)
    alike = weight * _at_common_batches(trials, of_run, cell, weight)
    part = np.bincount(of_run, alike, trials.runs) / np.bincount(of_run, weight, trials.runs)
    tells_batches = is_direct or bool(part.min() >= SMALLEST_SHARED_PART)
    compared = alike if tells_batches else weight
    for _ in range(ROUNDS):
        costs = _costs(content, seconds / np.exp(slowness[of_run]), weight)
        beside = np.log(seconds / (content @ costs))
        former = slowness
        if is_direct:
            # Beside the estimate and not as they are: a trial that the window's edge cuts holds less validation than others.
            slowness = _direct(held[is_shared], _cell_means(beside, weight, cell, of_run, held)[is_shared])
        else:
            slowness = np.bincount(of_run, compared * beside) / np.bincount(of_run, compared)
        slowness -= slowness.mean()
        if np.abs(slowness - former).max() < STILL:
            break
    sums = np.bincount(cell, weight * (beside - slowness[of_run]), len(trials.cells))
    shared = np.flatnonzero(is_shared).tolist()
    return SpeedModel(
        costs=costs,
        slowness=slowness,
        peculiar={trials.cells[index]: float(sums[index] / held[index].sum()) for index in shared},
        shared_cells=len(shared),
        shared_part=shared_part,
        is_direct=is_direct,
        tells_batches=tells_batches,
    )


def _at_common_batches(trials: Trials, of_run: Whole, cell: Whole, weight: Real) -> npt.NDArray[np.bool_]:
    """Of each trial whether all runs have batch sizes like its own: the same power of two, rounded."""
    classes = np.array([round(log2(batch)) for _, batch in trials.cells], dtype=np.int64)[cell]
    held = np.zeros((int(classes.max()) + 1, trials.runs))
    np.add.at(held, (classes, of_run), weight)
    is_common = np.asarray((held > 0).all(axis=1))
    return np.asarray(is_common[classes], dtype=np.bool_)


def _cell_means(values: Real, weight: Real, cell: Whole, of_run: Whole, held: Real) -> Real:
    """Shape (cells, runs); 0 where a run has no such cell."""
    sums = np.zeros_like(held)
    np.add.at(sums, (cell, of_run), weight * values)
    return np.divide(sums, held, out=np.zeros_like(held), where=held > 0)


def _hang_together(held: Real) -> bool:
    """Whether cells lead from every run to every other."""
    reached = {0} if len(held) else set()
    has = held > 0
    while True:
        cells = has[:, sorted(reached)].any(axis=1)
        further = set(np.flatnonzero(has[cells].any(axis=0)).tolist()) | reached
        if further == reached:
            return len(reached) == int(held.shape[1])
        reached = further


def _direct(held: Real, means: Real) -> Real:
    """The runs' slowness from cells that several have: least squares of cell + run, cells eliminated, each by its busy time.

    For two runs: the mean of ln(second ÷ first) over cells, by a · b ÷ (a + b) of their busy times.
    """
    whole = held.sum(axis=1, keepdims=True)
    normal = np.diag(held.sum(axis=0)) - held.T @ (held / whole)
    right = (held * (means - (held * means).sum(axis=1, keepdims=True) / whole)).sum(axis=0)
    return np.asarray(np.linalg.lstsq(normal, right, rcond=1e-10)[0], dtype=np.float64)


def _costs(content: Real, seconds: Real, weight: Real) -> Real:
    """Non-negative least squares of the relative deviation, in columns of like size."""
    from scipy.optimize import nnls

    rows = content / seconds[:, None] * np.sqrt(weight)[:, None]
    size = np.linalg.norm(rows, axis=0)
    size[size == 0] = 1.0
    scaled = np.column_stack([rows / size, np.sqrt(weight)])
    reduced = np.asarray(np.linalg.qr(scaled, mode="r"))  # a hundred thousand trials are six rows
    found, _ = nnls(reduced[:, :-1], reduced[:, -1])
    # No step is free, whatever it holds: each cost is a millionth at least of what it were if it alone took all the time.
    alone = np.divide(
        float(weight @ seconds), weight @ content, out=np.zeros(content.shape[1]), where=weight @ content > 0
    )
    return np.asarray(np.maximum(found / size, SMALLEST_COST * alone), dtype=np.float64)
