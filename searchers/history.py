"""History of a run as the input of a search: trials and their results, in the order of the journal.

A searcher is a function of a history and a request only, because every proposal must be recomputable from the journal. The
constants below bound the views: a proposal costs the same after 50,000 trials as after 500.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Literal, Protocol, TypeAlias, TypeVar, assert_never

import numpy as np

from morphism import (
    GRAPHS_REMEMBERED,
    Architecture,
    Budget,
    Graph,
    LegalMorphs,
    Lineage,
    Morph,
    choices,
    rebuild,
    rebuilt,
)
from searchers.batch_sizes import LEAST
from searchers.distance import Array, NodeFeatures, Outline

BEST_SEEN: Final = 150
"""Number of best finished trials in guided search."""
NEWEST_SEEN: Final = 150
"""Number of newest finished trials in guided search. With BEST_SEEN at most 300 trials."""
IN_FLIGHT_SEEN: Final = 200
"""Number of newest trials in flight in guided search and tuning."""
FAILED_SEEN: Final = 50
"""Number of newest failed trials in guided search."""
TUNING_SEEN: Final = 200
"""Number of newest finished trials in tuning."""
PRUNED_SEEN: Final = 50
"""Number of newest points out of memory in tuning."""
UNFIT_SEEN: Final = 50
"""Number of newest trials in tuning that failed because of their hyperparameters."""
PARENTS: Final = 16
"""Number of parents: the best trials that can grow and whose weights are stored."""

Cause: TypeAlias = Literal["", "machine", "divergence", "memory", "network"]
"""Cause of a failure. Empty if unknown."""
OF_HYPERPARAMETERS: Final = frozenset({"divergence", "memory"})
"""Causes of failure that batch size and kernel size can have."""

_CHILDREN_REMEMBERED: Final = 16384
_OUTLINES_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class Space:
    """Search space of a run. Raise ValueError if the smallest batch exceeds the largest, or if a number is below 1."""

    start: Architecture
    """A detector is trained as it is: nothing is searched."""
    budget: Budget
    default_batch_size: int
    """Images per accelerator."""
    smallest_batch_size: int | None
    """None for the smaller of the default and half the largest (searchers.tpe)."""
    largest_batch_size: int
    """Limit of the configuration and of training images / (20 · ranks). A measured ceiling may be lower."""
    tuning_from_round: int
    """First round with tuned batch size and kernel size. 4 in the paper."""
    learns_from_untuned: bool = False
    """True by version 4 of the proposal rules: tuning also learns from trials of earlier rounds, with the default batch."""
    batch_step: int = LEAST
    """Step of tuned batch sizes from 128 on, in images. 8 in runs whose journal has none."""

    def __post_init__(self) -> None:
        smallest = 1 if self.smallest_batch_size is None else self.smallest_batch_size
        if not 1 <= smallest <= self.largest_batch_size:
            raise ValueError(
                f"smallest_batch_size must be from 1 to largest_batch_size. This space has {self.smallest_batch_size!r} to "
                f"{self.largest_batch_size!r}: raise the largest or lower the smallest"
            )
        for name in ("default_batch_size", "tuning_from_round", "batch_step"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1. This space has {value!r}: raise it")


@dataclass(frozen=True, slots=True)
class Request:
    """Request of one proposal (a network to train next)."""

    number: int
    """Number of the proposal and of its trial, from 0."""
    round: int
    """Number of the trial in the series of its worker, from 1."""
    seed: int
    """Seed of all random choices, together with `number`."""
    starting_network: bool = False
    """True to propose the starting graph. Request 0 always proposes it."""


@dataclass(frozen=True, slots=True)
class OutOfMemoryPoint:
    """Hyperparameters that ran out of memory. Before version 4 of the proposal rules, also hyperparameters over the budget."""

    batch_size: int
    kernel_size: int | None
    reason: str


TunedBy: TypeAlias = Literal["", "default", "startup", "tpe"]
"""Origin of batch size and kernel size. default: not tuned. startup: random, before TPE starts. tpe: TPE's model."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A network to train: an architecture, as morphs (changes that grow a network) of a parent, with hyperparameters."""

    searcher: str
    parent: int | None
    morphs: tuple[Morph, ...]
    batch_size: int
    kernel_size: int | None
    pruned: tuple[OutOfMemoryPoint, ...] = ()
    tuned_by: TunedBy = "default"


# --- observations, in the order of the journal


@dataclass(frozen=True, slots=True)
class Requested:
    """Observation: a proposal is being computed."""

    number: int


@dataclass(frozen=True, slots=True)
class RequestWithoutTrial:
    """Observation: a request gives no trial, because its proposal was rejected or its worker was lost."""

    number: int


@dataclass(frozen=True, slots=True)
class TrialInFlight:
    """Observation: a trial was proposed and has no result yet."""

    number: int
    round: int
    parent: int | None
    morphs: tuple[Morph, ...]
    batch_size: int
    kernel_size: int | None
    fingerprint: str
    pruned: tuple[OutOfMemoryPoint, ...] = ()
    own_kernel: int | None = None
    """Kernel size of its network, tuned or not. None if unknown or not defined."""
    can_grow: bool = True
    """True if a morph is legal within the budget."""


@dataclass(frozen=True, slots=True)
class SpareBegan:
    """Observation: a spare trial (requested in advance) is trained in a later round than it was proposed for."""

    number: int
    round: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Observation: a trial has a result. `accuracy`: accuracy reported to the search, 0..1."""

    number: int
    accuracy: float


@dataclass(frozen=True, slots=True)
class FailedTrial:
    """Observation: a trial ended without a result."""

    number: int
    cause: Cause = ""


@dataclass(frozen=True, slots=True)
class WithdrawnTrial:
    """Observation: a trial never began, because its worker or the weights of its parent were lost."""

    number: int


@dataclass(frozen=True, slots=True)
class ReducedBatch:
    """Observation: the batch of a trial did not fit into memory. The trial continues with a smaller one."""

    number: int
    from_batch_size: int
    to_batch_size: int


@dataclass(frozen=True, slots=True)
class WeightsDropped:
    """Observation: the weights of a trial were removed. No other trial can inherit them."""

    number: int


@dataclass(frozen=True, slots=True)
class CeilingKnown:
    """Observation: the measured largest batch of an accelerator of the run, in images."""

    batch_size: int


Observation: TypeAlias = (
    Requested
    | RequestWithoutTrial
    | TrialInFlight
    | SpareBegan
    | Finished
    | FailedTrial
    | WithdrawnTrial
    | ReducedBatch
    | WeightsDropped
    | CeilingKnown
)


class Searcher(Protocol):
    """Search of architectures. `searchers.propose` adds the hyperparameters to its result."""

    @property
    def name(self) -> str:
        """Name of the searcher in the journal, such as 'morphism'."""
        ...

    def propose(self, history: History, request: Request) -> tuple[int | None, tuple[Morph, ...]]:
        """Return (parent, morphs): the trial from which the new network grows, and the changes that grow it, in order.

        `history`: trials and results until now. `request`: number, round and seed of the proposal. The parent is None for the
        starting network with fresh weights. The result depends on the arguments only. Raise NothingToPropose if no new
        architecture is found within the budget.
        """
        ...


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Rank: TypeAlias = tuple[float, str, int]  # (−accuracy, fingerprint, number): sorted best first, without ties


@dataclass(slots=True)
class History:
    """Trials of a run and their results, for searchers. `observe` adds observations, and all other methods only read."""

    space: Space
    trials: dict[int, TrialInFlight] = field(default_factory=dict, init=False)
    accuracies: dict[int, float] = field(default_factory=dict, init=False)
    """Accuracies of finished trials, in the order of their ends."""
    ceiling: int | None = field(default=None, init=False)
    """Smallest measured ceiling, in images per accelerator."""
    batch_sizes: dict[int, int] = field(default_factory=dict, init=False)
    places: NodeFeatures = field(init=False)
    """Stages of the starting graph. Not set for a detector."""
    in_flight: dict[int, TrialInFlight] = field(default_factory=dict, init=False)
    _failed: deque[int] = field(default_factory=lambda: deque(maxlen=FAILED_SEEN), init=False)
    unfit: deque[int] = field(default_factory=lambda: deque(maxlen=UNFIT_SEEN), init=False)
    """Newest trials that failed because of their hyperparameters, oldest first."""
    _best: list[_Rank] = field(default_factory=list, init=False)
    _inheritable: list[_Rank] = field(default_factory=list, init=False)
    dropped: set[int] = field(default_factory=set, init=False)
    pruned: deque[tuple[int, OutOfMemoryPoint]] = field(default_factory=lambda: deque(maxlen=PRUNED_SEEN), init=False)
    """Newest points out of memory, oldest first, each with the number of its trial."""
    _open: set[int] = field(default_factory=set, init=False)
    _holders: dict[str, int] = field(default_factory=dict, init=False)
    _graphs: OrderedDict[int, Graph] = field(default_factory=OrderedDict, init=False, repr=False)
    _known_children: OrderedDict[tuple[int | None, Morph], None] = field(
        default_factory=OrderedDict, init=False, repr=False
    )
    _outlines: OrderedDict[int, Outline] = field(default_factory=OrderedDict, init=False, repr=False)
    _rows: dict[int, Array] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.space.start, Graph):
            self.places = NodeFeatures.of(self.space.start)

    # --- updates

    def observe(self, observations: Iterable[Observation]) -> None:
        """Each costs the same for any length of the history. A result of a trial that is not in flight is ignored.

        Raise KeyError if another observation is of a trial that was not proposed.
        """
        for one in observations:
            match one:
                case Requested(number):
                    self._open.add(number)
                case RequestWithoutTrial(number):
                    self._open.discard(number)
                case TrialInFlight():
                    self._propose(one)
                case SpareBegan(number, round_):
                    begun = replace(self.trials[number], round=round_)
                    self.trials[number] = begun
                    if number in self.in_flight:
                        self.in_flight[number] = begun
                case Finished(number, accuracy):
                    self._finish(number, accuracy)
                case FailedTrial(number, cause):
                    trial = self.trials[number]
                    if self.in_flight.pop(number, None) is not None:
                        self._failed.append(number)
                        if cause in OF_HYPERPARAMETERS:
                            self.unfit.append(number)
                        if trial.fingerprint == self.space.start.fingerprint:
                            self._release(trial)  # a run repeats the starting graph, since all networks grow from it
                case WithdrawnTrial(number):
                    trial = self.trials[number]
                    if self.in_flight.pop(number, None) is not None:
                        self._release(trial)
                case ReducedBatch(number, from_batch_size, to_batch_size):
                    point = OutOfMemoryPoint(from_batch_size, self.own_kernel(number), "out of memory")
                    self.pruned.append((number, point))
                    self.batch_sizes[number] = to_batch_size
                case WeightsDropped(number):
                    self.dropped.add(number)
                    if number in self.accuracies:
                        _remove(self._inheritable, self._rank(number))
                case CeilingKnown(batch_size):
                    # the smallest accelerator limits all trials, since any worker may train them
                    self.ceiling = batch_size if self.ceiling is None else min(self.ceiling, batch_size)
                case _:
                    assert_never(one)

    def _propose(self, trial: TrialInFlight) -> None:
        self._open.discard(trial.number)
        self.trials[trial.number] = self.in_flight[trial.number] = trial
        self._holders.setdefault(trial.fingerprint, trial.number)
        self.pruned.extend((trial.number, point) for point in trial.pruned)

    def _release(self, trial: TrialInFlight) -> None:
        if self._holders.get(trial.fingerprint) == trial.number:
            del self._holders[trial.fingerprint]
            self._known_children.clear()  # one of them may be new again

    def _finish(self, number: int, accuracy: float) -> None:
        if self.in_flight.pop(number, None) is None:
            return  # only the first end of a trial counts
        self.accuracies[number] = accuracy
        rank = self._rank(number)
        if len(self._best) < BEST_SEEN or rank < self._best[-1]:
            insort(self._best, rank)
            del self._best[BEST_SEEN:]
        if number not in self.dropped and self.trials[number].can_grow:
            insort(self._inheritable, rank)

    def _rank(self, number: int) -> _Rank:
        return (-self.accuracies[number], self.trials[number].fingerprint, number)

    # --- views

    def parents(self) -> tuple[int, ...]:
        """At most PARENTS finished trials that can grow and have stored weights, by accuracy, fingerprint and number."""
        return tuple([number for _, _, number in self._inheritable[:PARENTS]])

    def inheritable(self) -> int:
        """Number of finished trials that can grow within the budget and have stored weights."""
        return len(self._inheritable)

    def inheritable_at(self, index: int) -> int:
        """Trial at this rank by accuracy (0 for the best) among those. Raise IndexError for a larger rank."""
        return self._inheritable[index][2]

    def finished_seen(self) -> tuple[int, ...]:
        """Finished trials that the search learns from, ascending: the BEST_SEEN best and the NEWEST_SEEN newest."""
        return tuple(
            sorted({number for _, _, number in self._best}.union(islice(reversed(self.accuracies), NEWEST_SEEN)))
        )

    def without_result_seen(self) -> tuple[int, ...]:
        """Newest trials without an accuracy, ascending: at most IN_FLIGHT_SEEN in flight and FAILED_SEEN failed ones."""
        return tuple(sorted({*islice(reversed(self.in_flight), IN_FLIGHT_SEEN), *self._failed}))

    def finished_newest(self) -> tuple[int, ...]:
        """At most TUNING_SEEN, oldest first."""
        return tuple(reversed(tuple(islice(reversed(self.accuracies), TUNING_SEEN))))

    def in_flight_newest(self) -> tuple[int, ...]:
        """At most IN_FLIGHT_SEEN, oldest first."""
        return tuple(reversed(tuple(islice(reversed(self.in_flight), IN_FLIGHT_SEEN))))

    def batch_size(self, number: int) -> int:
        """Images per accelerator, after reductions for lack of memory. Raise KeyError if the trial was not proposed."""
        return self.batch_sizes.get(number, self.trials[number].batch_size)

    def own_kernel(self, number: int) -> int | None:
        """Edge in pixels. The tuned one if it is unknown, None without one. Raise KeyError if the trial was not proposed."""
        trial = self.trials[number]
        return trial.kernel_size if trial.own_kernel is None else trial.own_kernel

    def holder(self, fingerprint: str) -> int | None:
        """First trial with this architecture. Withdrawn trials release theirs, and so does a failed starting graph."""
        return self._holders.get(fingerprint)

    def is_taken(self, fingerprint: str) -> bool:
        """True if a search must not propose it: it belongs to a trial or is the starting network."""
        return fingerprint in self._holders or fingerprint == self.space.start.fingerprint

    def open_requests(self, number: int) -> int:
        """Proposals that are being computed, without proposal `number`."""
        return len(self._open) - (number in self._open)

    # --- values derived from lineages, cached

    def graph(self, number: int | None) -> Graph:
        """None: the starting graph. Not for a detector. Raise KeyError if the trial was not proposed."""

        def child(graph: Graph, morphs: tuple[Morph, ...]) -> Graph:
            return rebuild(Lineage(graph, morphs))

        start = self.space.start
        assert isinstance(start, Graph), "`propose` and `architecture` separate detectors"
        return self._grown(number, start, child, self._graphs, GRAPHS_REMEMBERED)

    def outline(self, number: int | None) -> Outline:
        """None: no growth. It is computed from morphs without a graph."""
        return self._grown(number, self.places.untouched, self.places.grown, self._outlines, _OUTLINES_REMEMBERED)

    def _grown(
        self,
        number: int | None,
        start: _Value,
        child: Callable[[_Value, tuple[Morph, ...]], _Value],
        memory: OrderedDict[int, _Value],
        limit: int,
    ) -> _Value:
        missing: list[int] = []
        value = start
        for ancestor in self._lineage(number):
            if ancestor in memory:
                memory.move_to_end(ancestor)
                value = memory[ancestor]
                break
            missing.append(ancestor)
        for descendant in reversed(missing):
            value = child(value, self.trials[descendant].morphs)
            _remember(memory, descendant, value, limit)
        return value

    def descriptors(self, numbers: Sequence[int]) -> Array:
        """One row per trial, with the columns of `NodeFeatures.descriptors`."""
        missing = [number for number in dict.fromkeys(numbers) if number not in self._rows]
        if missing:
            made = self.places.descriptors([self.outline(number) for number in missing])
            self._rows.update(zip(missing, made, strict=True))
        width = len(self.places.untouched.growth)
        return np.concatenate([np.empty(0), *[self._rows[number] for number in numbers]]).reshape(len(numbers), width)

    def fingerprint(self, number: int | None) -> str:
        """32 hexadecimal digits. None: the starting network's."""
        return self.space.start.fingerprint if number is None else self.trials[number].fingerprint

    def grown(self, parent: int | None, morphs: tuple[Morph, ...]) -> Graph:
        """Parent None: the starting graph. Raise IllegalMorph if a morph does not fit."""
        return rebuild(Lineage(self.graph(parent), morphs))

    def architecture(self, parent: int | None, morphs: tuple[Morph, ...]) -> Architecture:
        """Graph of `parent` after `morphs`, or the detector of a run of one. Raise IllegalMorph if a morph does not fit."""
        start = self.space.start
        return self.grown(parent, morphs) if isinstance(start, Graph) else rebuilt(start, morphs)

    def is_known_child(self, parent: int | None, morph: Morph) -> bool:
        """False proves nothing, because old records are removed."""
        return (parent, morph) in self._known_children

    def remember_child(self, parent: int | None, morph: Morph) -> None:
        """Record a known architecture. After thousands of proposals, most random morphs give one."""
        _remember(self._known_children, (parent, morph), None, _CHILDREN_REMEMBERED)

    def choices(self, number: int | None) -> LegalMorphs:
        """Legal morphs within the budget. None: of the starting graph."""
        return choices(self.graph(number), self.space.budget)

    def _lineage(self, number: int | None) -> Iterator[int]:
        while number is not None:
            trial = self.trials[number]
            yield number
            number = trial.parent


def _remember(memory: OrderedDict[_Key, _Value], key: _Key, value: _Value, limit: int) -> None:
    memory[key] = value
    if len(memory) > limit:
        memory.popitem(last=False)


def _remove(ranks: list[_Rank], rank: _Rank) -> None:
    index = bisect_left(ranks, rank)
    if index < len(ranks) and ranks[index] == rank:
        del ranks[index]
