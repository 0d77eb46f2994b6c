"""Batch size and kernel size by Optuna's TPE: one study over the run's history, made afresh for each proposal.

The sampler is seeded by the proposal's seed and number and is given what the history shows: the 200 newest finished trials,
the 200 newest in flight as running ones, and the 50 newest points that were over the budget or out of memory as pruned ones.
Both sizes come from one draw of their joint density. What is kept between proposals saves work and decides nothing. This is
the only file that imports optuna.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.storages import InMemoryStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from morphism import Budget, Graph, Lineage, Morph, cost, rebuild
from searchers.chance import derived
from searchers.history import History, Point, Request
from searchers.kernel_size import LARGEST, STEP, enlarging, smallest

BATCH_STEP: Final = 8
"""Batch sizes are tuned in steps of 8, as the matrix units of accelerators like them."""

_STUDY: Final = "aiperf"
_LONG_AGO: Final = datetime(2000, 1, 1)


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning makes of an architecture."""

    morphs: tuple[Morph, ...]
    """Kernel morphs, on the graph that was tuned."""
    batch_size: int
    kernel_size: int | None
    """None where no convolution could be tuned, or no size made a new network within the budget."""
    pruned: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Tpe:
    """Optuna's tree-structured Parzen estimator."""

    startup_trials: int
    """Trials before which points are drawn at random."""
    candidates: int
    """Points that TPE draws and compares."""
    tries: int
    """Points that are asked for until one makes a new network; then the kernels stay as they are."""

    def tune(self, history: History, request: Request, parent: Graph, graph: Graph) -> Tuned:
        """Batch size, and kernel size from the parent's on, for a graph that grew from `parent`."""
        batches = batch_range(history)
        from_size = smallest(parent)
        space: dict[str, BaseDistribution] = {"batch_size": batches}
        if from_size is not None:
            space["kernel_size"] = IntDistribution(from_size, LARGEST, step=STEP)
        study = self._study(_told(history, batches, from_size), request, space)
        pruned: list[Point] = []
        batch_size = batches.high
        for _ in range(self.tries):
            trial = study.ask(space)
            batch_size = int(trial.params["batch_size"])
            if from_size is None:
                return Tuned((), batch_size, None, ())
            drawn = kernel_size = int(trial.params["kernel_size"])
            # larger kernels cost more: the largest within the budget stands in for one beyond it
            while kernel_size >= from_size and not _fits(history, graph, kernel_size):
                kernel_size -= STEP
            if kernel_size < drawn:
                reason = over_budget(history.space.budget, _enlarged(graph, drawn))
                pruned.append(Point(batch_size, drawn, reason))
            if kernel_size < from_size:
                break
            enlargement = enlarging(graph, kernel_size)
            if not enlargement or not history.is_taken(_enlarged(graph, kernel_size).fingerprint):
                return Tuned(enlargement, batch_size, kernel_size, tuple(pruned))
            pruned.append(Point(batch_size, kernel_size, "proposed before"))
            study.tell(trial, state=TrialState.PRUNED)
        return Tuned((), batch_size, None, tuple(pruned))

    def _study(self, told: list[FrozenTrial], request: Request, space: Mapping[str, BaseDistribution]) -> Study:
        # "a new study was created" once a proposal is no news
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = _Joint(
            space,
            n_startup_trials=self.startup_trials,
            n_ei_candidates=self.candidates,
            constant_liar=True,  # points in flight count as bad ones, so that workers try different ones
            seed=derived("tpe", request.seed, request.number),
        )
        return optuna.create_study(storage=_Told(told), sampler=sampler, study_name=_STUDY, direction="maximize")


def batch_range(history: History) -> IntDistribution:
    """Batch sizes that may be tuned: from the smallest to min(measured ceiling, largest), in steps of BATCH_STEP.

    A ceiling below the smallest leaves the ceiling alone.
    """
    space = history.space
    highest = space.largest_batch_size if history.ceiling is None else min(history.ceiling, space.largest_batch_size)
    lowest = min(space.smallest_batch_size, highest)
    return IntDistribution(lowest, highest - (highest - lowest) % BATCH_STEP, step=BATCH_STEP)


def _fits(history: History, graph: Graph, kernel_size: int) -> bool:
    # without larger kernels the graph is as the search made it, which saw to its budget
    return not enlarging(graph, kernel_size) or history.space.budget.allows(cost(_enlarged(graph, kernel_size)))


def _enlarged(graph: Graph, kernel_size: int) -> Graph:
    return rebuild(Lineage(graph, enlarging(graph, kernel_size)))


def over_budget(budget: Budget, graph: Graph) -> str:
    """In words, by which limit a graph is over the budget; every limit that is passed is named."""
    found = cost(graph)
    limits = (
        ("forward operations", found.forward_flops, budget.forward_flops),
        ("parameters", found.parameters, budget.parameters),
        (
            "bytes of training memory",
            found.training_memory(budget.batch, budget.bytes_per_element),
            budget.memory_bytes,
        ),
    )
    passed = [
        f"{value} {what}, allowed {limit}" for what, value, limit in limits if limit is not None and value > limit
    ]
    return f"over the budget: {'; '.join(passed)}"


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


def _told(history: History, batches: IntDistribution, from_size: int | None) -> list[FrozenTrial]:
    """The history in Optuna's words: pruned points, then finished trials, then those in flight, the newest of each last."""
    ranges = (batches.low, batches.high, from_size)
    told = [
        _trial(_PRUNED + number, TrialState.PRUNED, point.batch_size, point.kernel_size, None, *ranges)
        for number, point in enumerate(history.pruned_newest())
    ]
    for state, first, numbers in (
        (TrialState.COMPLETE, _FINISHED, history.finished_newest()),
        (TrialState.RUNNING, _IN_FLIGHT, history.in_flight_newest()),
    ):
        for number in numbers:
            trial = history.trials[number]
            batch_size = history.batch_sizes.get(number, trial.batch_size)
            value = history.accuracies.get(number)
            told.append(_trial(first + number, state, batch_size, trial.kernel_size, value, *ranges))
    # what can no longer be chosen is left out: it says nothing of what can
    return [trial for trial in told if trial is not None]


# Optuna wants numbers in the order of the trials; these are below those of the points still to be asked for.
_PRUNED, _FINISHED, _IN_FLIGHT = -3 * 10**9, -2 * 10**9, -(10**9)


@lru_cache(maxsize=4096)
def _trial(
    number: int,
    state: TrialState,
    batch_size: int,
    kernel_size: int | None,
    value: float | None,
    lowest_batch: int,
    highest_batch: int,
    from_size: int | None,
) -> FrozenTrial | None:
    """One trial in Optuna's words; None where it cannot be chosen. Remembered: each is told many times."""
    # the default and a batch reduced for want of memory may lie beside the grid: the grid's point below stands for it
    batch_size -= (batch_size - lowest_batch) % BATCH_STEP
    if not lowest_batch <= batch_size <= highest_batch:
        return None
    params = {"batch_size": batch_size}
    distributions: dict[str, BaseDistribution] = {
        "batch_size": IntDistribution(lowest_batch, highest_batch, step=BATCH_STEP)
    }
    if from_size is not None:
        # an untuned trial kept its kernels as they were, and that is what the smallest size does
        kernel_size = from_size if kernel_size is None else kernel_size
        if not from_size <= kernel_size <= LARGEST:
            return None
        params["kernel_size"] = kernel_size
        distributions["kernel_size"] = IntDistribution(from_size, LARGEST, step=STEP)
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
