"""Tuning of batch size and kernel size by Optuna's tree-structured Parzen estimator, with a new study for each proposal.

It has the newest finished trials of tuned rounds with their residuals, the newest in flight as running, and as pruned the
newest points out of memory and the newest trials that failed because of their sizes. Both sizes have a joint density.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.storages import InMemoryStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from morphism import Graph, Lineage, Morph, cost, rebuild
from searchers.batch_sizes import LEAST, nearest, rounded_down
from searchers.distance import KINDS_OF_GROWTH, WITHOUT_KERNELS, Array
from searchers.gaussian import one_blas_thread
from searchers.growth import STEP, derived, enlarging, own_size, sizes_of
from searchers.history import History, Request, TunedBy

_LEAST_ERROR: Final = 1e-3
"""Smaller errors are set to this value, since their logarithms would dominate."""
_RIDGE: Final = 0.1
_DECIMALS: Final = 9  # floating point differs in the last bits between processors: differences below 1e-9 are ties


def residuals(history: History, numbers: tuple[int, ...]) -> dict[int, float]:
    """log(error) expected from each network's growth minus the measured log(error). Positive: better than expected.

    Accuracy rises with the size of networks by far more than tuning adds. A ridge regression on growth, its square, and the
    tuned sizes removes that effect. The sizes are inputs too, since they change together with growth (added-variable plots).
    """
    if not numbers:
        return {}
    grown = _growth(history, numbers)
    inputs = np.column_stack([grown, _sizes(history, numbers)])
    inputs -= inputs.mean(axis=0)
    errors = np.log(np.maximum(_LEAST_ERROR, [1.0 - history.accuracies[number] for number in numbers]))
    errors -= errors.mean()
    with one_blas_thread():
        normal = inputs.T @ inputs + _RIDGE * np.eye(inputs.shape[1])
        weights = np.linalg.solve(normal, inputs.T @ errors)
        residual = inputs[:, : grown.shape[1]] @ weights[: grown.shape[1]] - errors
    return {number: round(float(one), _DECIMALS) for number, one in zip(numbers, residual, strict=True)}


def _growth(history: History, numbers: tuple[int, ...]) -> Array:
    """Return growth by kind and stage, and the square of its sum, one row per trial."""
    rows = history.descriptors(numbers)
    growth = rows.reshape(len(numbers), KINDS_OF_GROWTH, -1)[:, WITHOUT_KERNELS].reshape(len(numbers), -1)
    return np.column_stack([growth, growth.sum(axis=1) ** 2])


def _sizes(history: History, numbers: tuple[int, ...]) -> Array:
    """Return log2 of batch and kernel, and their squared deviations from the mean, for an optimum within the range."""
    sizes = np.log2([[history.batch_size(number), history.own_kernel(number) or 1] for number in numbers])
    return np.column_stack([sizes, (sizes - sizes.mean(axis=0)) ** 2])


_STUDY: Final = "aiperf"
_LONG_AGO: Final = datetime(2000, 1, 1)


SMALLEST_SHARE: Final = 2
"""Default of the smallest batch: the largest divided by this number."""


@dataclass(frozen=True, slots=True)
class TuningResult:
    morphs: tuple[Morph, ...]
    """Morphs that enlarge the kernels of the network to the tuned size."""
    batch_size: int
    """Images per accelerator."""
    kernel_size: int | None
    """None if no convolution is tunable, or no size gives a new network within the budget."""
    tuned_by: TunedBy


@dataclass(frozen=True, slots=True)
class Tpe:
    """Tuner by Optuna's tree-structured Parzen estimator (TPE)."""

    startup_trials: int
    """Random trials before TPE starts."""
    candidates: int
    """Points that TPE draws and compares."""

    def tune(self, history: History, request: Request, parent: Graph, graph: Graph) -> TuningResult:
        """Sizes for `graph`, which grew from the graph `parent`. The kernel size is at least that of the parent."""
        batches = batch_range(history)
        sizes = _possible(history, parent, graph)
        space: dict[str, BaseDistribution] = {"batch_size": batches}
        if sizes:
            space["kernel_size"] = IntDistribution(sizes[0], sizes[-1], step=STEP)
        trials = _trials(history)
        trial = self._study(trials, request, space).ask(space)
        known = [one for one in trials if one.state is not TrialState.RUNNING]
        tuned_by: TunedBy = "startup" if len(known) < self.startup_trials else "tpe"
        drawn = int(trial.params["batch_size"])
        batch_size = nearest(drawn, batches.low, batches.high, history.space.batch_step)
        if not sizes:
            return TuningResult((), batch_size, None, tuned_by)
        drawn = int(trial.params["kernel_size"])
        # a drawn size may be impossible: take the nearest possible one, the smaller of two
        kernel_size = min(sizes, key=lambda size: (abs(size - drawn), size))
        return TuningResult(enlarging(graph, kernel_size), batch_size, kernel_size, tuned_by)

    def _study(self, trials: list[FrozenTrial], request: Request, space: Mapping[str, BaseDistribution]) -> Study:
        # no message "a new study was created" for each proposal
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = _Joint(
            space,
            n_startup_trials=self.startup_trials,
            n_ei_candidates=self.candidates,
            multivariate=True,
            constant_liar=True,  # points in flight count as bad, so that workers try different ones
            seed=derived("tpe", request.seed, request.number),
        )
        return optuna.create_study(storage=_Storage(trials), sampler=sampler, study_name=_STUDY, direction="maximize")


def batch_range(history: History) -> IntDistribution:
    """Range from which a batch size is drawn, up to min(measured largest batch, configured largest batch).

    Default of the smallest: the default batch or half of the upper limit, whichever is smaller, rounded down to a batch size.
    If the upper limit is below the smallest, the range has only the upper limit.
    """
    space = history.space
    highest = space.largest_batch_size if history.ceiling is None else min(history.ceiling, space.largest_batch_size)
    smallest = space.smallest_batch_size
    if smallest is None:
        smallest = min(space.default_batch_size, highest // SMALLEST_SHARE)
        smallest = max(LEAST, rounded_down(smallest, space.batch_step))
    lowest = min(smallest, highest)
    return IntDistribution(lowest, highest - (highest - lowest) % LEAST, step=LEAST)


def _possible(history: History, parent: Graph, graph: Graph) -> list[int]:
    """A size that enlarges nothing is possible, since the search has checked the graph."""
    own = own_size(parent)
    possible: list[int] = []
    for size in sizes_of(graph):
        if own is not None and size < own:
            continue
        enlargement = enlarging(graph, size)
        if enlargement:
            enlarged = rebuild(Lineage(graph, enlargement))
            if not history.space.budget.allows(cost(enlarged)):
                break  # larger kernels cost more
            if history.is_taken(enlarged.fingerprint):
                continue
        possible.append(size)
    return possible


class _Joint(TPESampler):
    """Optuna finds no common space if the trials' ranges differ, and would draw each size independently, at twice the cost."""

    def __init__(self, space: Mapping[str, BaseDistribution], **options: Any) -> None:
        super().__init__(**options)
        self._space = space

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {name: sizes for name, sizes in self._space.items() if not sizes.single()}

    def _get_internal_repr(
        self, trials: list[FrozenTrial], search_space: dict[str, BaseDistribution], study: Study
    ) -> dict[str, np.ndarray]:
        # faster than the method of Optuna 5.0, with the same result for whole numbers
        tried = [trial.params for trial in trials]
        tried = [params for params in tried if search_space.keys() <= params.keys()]
        return {name: np.asarray([float(params[name]) for params in tried]) for name in search_space}


class _Storage(InMemoryStorage):
    """Storage that begins with given trials. Optuna's add_trials copies and validates each, which is too slow for 400."""

    def __init__(self, trials: list[FrozenTrial]) -> None:
        super().__init__()
        self._of_history = trials

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        given = [trial for trial in self._of_history if states is None or trial.state in states]
        return given + super().get_all_trials(study_id, deepcopy, states)


def _trials(history: History) -> list[FrozenTrial]:
    """Failures by their sizes, finished trials, trials in flight, each newest last, also outside the current ranges.

    Trials before the first round of tuning are left out. They are the earliest and worst ones and all have the default batch,
    so that TPE avoided that batch for the whole run.
    """
    finished = history.finished_newest()
    values = residuals(history, finished)
    finished, in_flight = _tuned(history, finished), _tuned(history, history.in_flight_newest())
    trials = [
        _trial(_place(number, _SHRUNK), _SHRUNK, point.batch_size, point.kernel_size)
        for number, point in history.pruned
    ]
    for how, numbers in ((_UNFIT, history.unfit), (_FINISHED, finished), (_IN_FLIGHT, in_flight)):
        for number in numbers:
            sizes = history.batch_size(number), history.own_kernel(number)
            trials.append(
                # not cached: residuals change with each result
                _trial.__wrapped__(_place(number, how), how, *sizes, values[number])
                if how == _FINISHED
                else _trial(_place(number, how), how, *sizes)
            )
    return trials


def _tuned(history: History, numbers: tuple[int, ...]) -> tuple[int, ...]:
    first = 0 if history.space.learns_from_untuned else history.space.tuning_from_round
    return tuple([number for number in numbers if history.trials[number].round >= first])


_SHRUNK, _UNFIT, _FINISHED, _IN_FLIGHT = range(4)
_STATES: Final = (TrialState.PRUNED, TrialState.PRUNED, TrialState.COMPLETE, TrialState.RUNNING)
"""Optuna's states of these four."""


def _place(number: int, how: int) -> int:
    """In the order of the proposals, and below new points: TPE gives trials with small numbers less weight."""
    return -(10**10) + 4 * number + how


_EVERY_BATCH: Final = IntDistribution(1, 2**31)
_EVERY_KERNEL: Final = IntDistribution(1, 2**31)


@lru_cache(maxsize=4096)
def _trial(number: int, how: int, batch_size: int, kernel_size: int | None, value: float | None = None) -> FrozenTrial:
    state = _STATES[how]
    params = {"batch_size": batch_size}
    distributions: dict[str, BaseDistribution] = {"batch_size": _EVERY_BATCH}
    if kernel_size is not None:
        params["kernel_size"] = kernel_size
        distributions["kernel_size"] = _EVERY_KERNEL
    return FrozenTrial(
        number=number,
        trial_id=number,
        state=state,
        value=value,
        datetime_start=_LONG_AGO,
        datetime_complete=None if state is TrialState.RUNNING else _LONG_AGO,
        params=params,
        distributions=distributions,
        user_attrs={},
        system_attrs={},
        intermediate_values={},
    )
