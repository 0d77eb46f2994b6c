"""Batch size and kernel size by Optuna's TPE: one study over the run's history, made afresh for each proposal.

The sampler is seeded by the proposal's seed and number and is given what the history shows: the 200 newest finished trials
with what tuning gave each (`residual.py`), the 200 newest in flight as running ones, and as pruned ones the 50 newest points
out of memory and the 50 newest trials that failed by their own sizes. Each stands at the sizes that its network really had.
Both sizes come from one draw of their joint density. What is kept between proposals saves work and decides nothing. This is
the only file of the searchers that imports optuna.
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
from searchers.history import History, Request, TunedBy
from searchers.kernel_size import STEP, enlarging, own_size, sizes_of
from searchers.residual import residuals
from searchers.rng import derived

BATCH_STEP: Final = 8
"""Batch sizes are tuned in steps of 8, as the matrix units of accelerators like them."""

_STUDY: Final = "aiperf"
_LONG_AGO: Final = datetime(2000, 1, 1)


SMALLEST_SHARE: Final = 2
"""Where no smallest batch is configured, tuning goes down to this part of the largest that can be chosen: a half, where an
accelerator still trains at nine tenths of its best speed (docs/searchers.md says by what figures)."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning makes of an architecture."""

    morphs: tuple[Morph, ...]
    """Kernel morphs, on the graph that was tuned."""
    batch_size: int
    kernel_size: int | None
    """None where no convolution could be tuned, or no size made a new network within the budget."""
    tuned_by: TunedBy


@dataclass(frozen=True, slots=True)
class Tpe:
    """Optuna's tree-structured Parzen estimator."""

    startup_trials: int
    """Trials before which points are drawn at random."""
    candidates: int
    """Points that TPE draws and compares."""

    def tune(self, history: History, request: Request, parent: Graph, graph: Graph) -> Tuned:
        """Batch size, and kernel size from the parent's on, for a graph that grew from `parent`."""
        batches = batch_range(history)
        sizes = _possible(history, parent, graph)
        space: dict[str, BaseDistribution] = {"batch_size": batches}
        if sizes:
            space["kernel_size"] = IntDistribution(sizes[0], sizes[-1], step=STEP)
        told = _told(history)
        trial = self._study(told, request, space).ask(space)
        known = [one for one in told if one.state is not TrialState.RUNNING]
        tuned_by: TunedBy = "startup" if len(known) < self.startup_trials else "tpe"
        batch_size = int(trial.params["batch_size"])
        if not sizes:
            return Tuned((), batch_size, None, tuned_by)
        drawn = int(trial.params["kernel_size"])
        # one between two possible sizes may be another trial's: the nearest stands in for it, of two the smaller
        kernel_size = min(sizes, key=lambda size: (abs(size - drawn), size))
        return Tuned(enlarging(graph, kernel_size), batch_size, kernel_size, tuned_by)

    def _study(self, told: list[FrozenTrial], request: Request, space: Mapping[str, BaseDistribution]) -> Study:
        # "a new study was created" once a proposal is no news
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = _Joint(
            space,
            n_startup_trials=self.startup_trials,
            n_ei_candidates=self.candidates,
            multivariate=True,  # as it is by itself here, but asked of the study for each trial anew
            constant_liar=True,  # points in flight count as bad ones, so that workers try different ones
            seed=derived("tpe", request.seed, request.number),
        )
        return optuna.create_study(storage=_Told(told), sampler=sampler, study_name=_STUDY, direction="maximize")


def batch_range(history: History) -> IntDistribution:
    """Batch sizes that may be tuned: from the smallest to min(measured ceiling, largest), in steps of BATCH_STEP.

    Where no smallest is configured it is half of that largest, on the grid, and at most the default: below it
    accelerators starve, and a search that draws there pays for it with the score. A ceiling below the smallest leaves the
    ceiling alone.
    """
    space = history.space
    highest = space.largest_batch_size if history.ceiling is None else min(history.ceiling, space.largest_batch_size)
    smallest = space.smallest_batch_size
    if smallest is None:
        smallest = min(space.default_batch_size, highest // SMALLEST_SHARE)
        smallest = max(BATCH_STEP, smallest - smallest % BATCH_STEP)
    lowest = min(smallest, highest)
    return IntDistribution(lowest, highest - (highest - lowest) % BATCH_STEP, step=BATCH_STEP)


def _possible(history: History, parent: Graph, graph: Graph) -> list[int]:
    """The kernel sizes that make a network within the budget which is nobody's yet, from the parent's own on.

    The graph as it is was seen to by the search: a size that enlarges nothing is possible.
    """
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
    """Draws all sizes of a space at once, from their joint density.

    Optuna would infer the space from the trials, and finds none where their ranges differ: each size would be drawn for
    itself, at twice the cost and blind to what one means for the other.
    """

    def __init__(self, space: Mapping[str, BaseDistribution], **options: Any) -> None:
        super().__init__(**options)
        self._space = space

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {name: sizes for name, sizes in self._space.items() if not sizes.single()}

    def _get_internal_repr(
        self, trials: list[FrozenTrial], search_space: dict[str, BaseDistribution], study: Study
    ) -> dict[str, np.ndarray]:
        # Optuna 5.0 asks each trial whether it is under way and each distribution for its view of each value: of whole numbers
        # that were told that is the number. Were this method called otherwise one day, its own would do the same, more slowly
        tried = [trial.params for trial in trials]
        tried = [params for params in tried if search_space.keys() <= params.keys()]
        return {name: np.asarray([float(params[name]) for params in tried]) for name in search_space}


class _Told(InMemoryStorage):
    """A study in memory that begins with trials told from outside.

    Optuna's own add_trials copies and validates every one, which for 400 takes longer than the proposal may.
    """

    def __init__(self, told: list[FrozenTrial]) -> None:
        super().__init__()
        self._of_history = told

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        told = [trial for trial in self._of_history if states is None or trial.state in states]
        return told + super().get_all_trials(study_id, deepcopy, states)


def _told(history: History) -> list[FrozenTrial]:
    """The history in Optuna's words: what failed by its own sizes, then finished trials, then those in flight, the newest of
    each last.

    Nothing is left out because it could not be chosen now: sizes outside today's ranges say what lies beside them, too.
    """
    finished = history.finished_newest()
    values = residuals(history, finished)
    told = [
        _trial(_place(number, _SHRUNK), _SHRUNK, point.batch_size, point.kernel_size)
        for number, point in history.pruned_newest()
    ]
    for how, numbers in (
        (_UNFIT, history.unfit_newest()),
        (_FINISHED, finished),
        (_IN_FLIGHT, history.in_flight_newest()),
    ):
        for number in numbers:
            sizes = history.batch_size(number), history.own_kernel(number)
            told.append(
                # what tuning gave one is another number with each result: remembering that would serve nobody
                _trial.__wrapped__(_place(number, how), how, *sizes, values[number])
                if how == _FINISHED
                else _trial(_place(number, how), how, *sizes)
            )
    return told


_SHRUNK, _UNFIT, _FINISHED, _IN_FLIGHT = range(4)
_STATES: Final = (TrialState.PRUNED, TrialState.PRUNED, TrialState.COMPLETE, TrialState.RUNNING)
"""Of these four, in Optuna's words."""


def _place(number: int, how: int) -> int:
    """A trial's number for Optuna: in the order of the proposals, and below those of points still to be asked for.

    TPE weighs old trials less, by their numbers, whatever became of them.
    """
    return -(10**10) + 4 * number + how


_EVERY_BATCH: Final = IntDistribution(1, 2**31)
_EVERY_KERNEL: Final = IntDistribution(1, 2**31)


@lru_cache(maxsize=4096)
def _trial(number: int, how: int, batch_size: int, kernel_size: int | None, value: float | None = None) -> FrozenTrial:
    """One trial in Optuna's words. Remembered: each is told many times."""
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
