"""Model of the time of a network at a batch size on each run's machine, fitted to the trials of all runs.

Machines are compared directly on networks that several runs trained at the same batch size. The time of a network that only one
run trained is estimated from the content of its steps. See docs/statistics.md.
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
"""Network and batch size."""

FEWEST_SHARED_CELLS = 3
SMALLEST_SHARED_PART = 0.1
"""Share of all busy time in shared cells from which machines are compared on these cells only. Also the share of each run's
busy time at common batch sizes from which machines can be separated from batch sizes."""
MUCH_SHARED = 0.5
"""Share of all busy time in shared cells that suffices for any number of cells."""
SMALLEST_COST = 1e-6
ROUNDS = 12
"""Largest number of alternating estimates of costs and slowness. A few usually suffice."""
STILL = 1e-10
"""Largest change of a logarithm at convergence."""


@dataclass(frozen=True, slots=True)
class SpeedModel:
    """Busy accelerator-seconds per image: costs · content · slowness of the machine · factor of the cell."""

    costs: Real
    """Seconds per step, convolution operation, other operation, parameter and step, and generation and step. Shape (5,)."""
    slowness: Real
    """Logarithm of the relative time of each run's machine for equal steps. Shape (runs,), mean 0."""
    peculiar: dict[Cell, float]
    """Logarithm of the deviation of a shared cell from the estimate."""
    shared_cells: int
    """Number of cells that several runs trained."""
    shared_part: float
    """Share of all busy time spent in shared cells."""
    is_direct: bool
    """True if `slowness` was estimated from shared cells only."""
    separates_batches: bool
    """True if machines can be separated from batch sizes. This needs batch sizes that all runs have in common."""

    def seconds(self, content: Real, cells: Sequence[Cell]) -> Real:
        """Return the seconds per image on a machine with mean slowness, shape (n,). `content`: shape (n, 5)."""
        own = np.array([self.peculiar.get(cell, 0.0) for cell in cells])
        return np.asarray((content @ self.costs) * np.exp(own), dtype=np.float64)


def content_of_an_image(trial: TrialWork, batch: int) -> tuple[float, ...]:
    """Return the content of a step per image: five numbers in the order of `SpeedModel.costs`."""
    tensor = trial.tensor_operations / trial.images
    other = (trial.operations - trial.tensor_operations) / trial.images
    return (1 / batch, tensor, other, trial.parameters / batch, trial.generation / batch)


@dataclass(frozen=True, slots=True)
class Trials:
    """Trials of all runs as columns, with one row per trial."""

    runs: int
    of_run: Whole
    content: Real
    seconds: Real
    """Busy accelerator-seconds per image."""
    weight: Real
    """Busy accelerator-seconds."""
    cells: tuple[Cell, ...]
    cell: Whole
    """Index into `cells`."""


def trials_of(runs: Sequence[RunWork]) -> Trials:
    """Return the trials of runs with at least one trial each."""
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
    """Fit the model by non-negative least squares on relative deviations, with trials weighted by busy time.

    Args:
        trials: Trials of all runs.
        kept: True for each cell to use, shape (cells,). Each run must keep a trial. Default: all cells.
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
    separates_batches = is_direct or bool(part.min() >= SMALLEST_SHARED_PART)
    compared = alike if separates_batches else weight
    for _ in range(ROUNDS):
        costs = _costs(content, seconds / np.exp(slowness[of_run]), weight)
        residuals = np.log(seconds / (content @ costs))
        former = slowness
        if is_direct:
            # Residuals instead of times, because a trial cut by the window's edge has less validation.
            slowness = _direct(held[is_shared], _cell_means(residuals, weight, cell, of_run, held)[is_shared])
        else:
            slowness = np.bincount(of_run, compared * residuals) / np.bincount(of_run, compared)
        slowness -= slowness.mean()
        if np.abs(slowness - former).max() < STILL:
            break
    sums = np.bincount(cell, weight * (residuals - slowness[of_run]), len(trials.cells))
    shared = np.flatnonzero(is_shared).tolist()
    return SpeedModel(
        costs=costs,
        slowness=slowness,
        peculiar={trials.cells[index]: float(sums[index] / held[index].sum()) for index in shared},
        shared_cells=len(shared),
        shared_part=shared_part,
        is_direct=is_direct,
        separates_batches=separates_batches,
    )


def _at_common_batches(trials: Trials, of_run: Whole, cell: Whole, weight: Real) -> npt.NDArray[np.bool_]:
    """Return True for each trial whose batch size, rounded to a power of two, is used by all runs. Shape (trials,)."""
    classes = np.array([round(log2(batch)) for _, batch in trials.cells], dtype=np.int64)[cell]
    held = np.zeros((int(classes.max()) + 1, trials.runs))
    np.add.at(held, (classes, of_run), weight)
    is_common = np.asarray((held > 0).all(axis=1))
    return np.asarray(is_common[classes], dtype=np.bool_)


def _cell_means(values: Real, weight: Real, cell: Whole, of_run: Whole, held: Real) -> Real:
    """Return the weighted means by cell and run, shape (cells, runs). 0 if a run lacks the cell."""
    sums = np.zeros_like(held)
    np.add.at(sums, (cell, of_run), weight * values)
    return np.divide(sums, held, out=np.zeros_like(held), where=held > 0)


def _hang_together(held: Real) -> bool:
    """Return True if shared cells connect all runs. `held`: shape (cells, runs)."""
    reached = {0} if len(held) else set()
    has = held > 0
    while True:
        cells = has[:, sorted(reached)].any(axis=1)
        further = set(np.flatnonzero(has[cells].any(axis=0)).tolist()) | reached
        if further == reached:
            return len(reached) == int(held.shape[1])
        reached = further


def _direct(held: Real, means: Real) -> Real:
    """Return the slowness of the runs from shared cells, by weighted least squares of cell + run with eliminated cells.

    For two runs: mean of ln(second ÷ first) over cells, weighted by a · b ÷ (a + b) with the busy times a and b.
    """
    busy_seconds = held.sum(axis=1, keepdims=True)
    normal = np.diag(held.sum(axis=0)) - held.T @ (held / busy_seconds)
    right = (held * (means - (held * means).sum(axis=1, keepdims=True) / busy_seconds)).sum(axis=0)
    return np.asarray(np.linalg.lstsq(normal, right, rcond=1e-10)[0], dtype=np.float64)


def _costs(content: Real, seconds: Real, weight: Real) -> Real:
    """Return the costs by non-negative least squares of the relative deviation, with scaled columns. Shape (5,)."""
    from scipy.optimize import nnls

    rows = content / seconds[:, None] * np.sqrt(weight)[:, None]
    size = np.linalg.norm(rows, axis=0)
    size[size == 0] = 1.0
    scaled = np.column_stack([rows / size, np.sqrt(weight)])
    reduced = np.asarray(np.linalg.qr(scaled, mode="r"))  # reduces any number of trials to six rows
    solution, _ = nnls(reduced[:, :-1], reduced[:, -1])
    # Each cost is positive: at least a millionth of the cost that would explain the whole time alone.
    alone = np.divide(
        float(weight @ seconds), weight @ content, out=np.zeros(content.shape[1]), where=weight @ content > 0
    )
    return np.asarray(np.maximum(solution / size, SMALLEST_COST * alone), dtype=np.float64)
