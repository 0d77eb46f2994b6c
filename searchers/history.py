"""What a searcher may look at: the run's proposals and their results, as far as the journal told them.

A history is grown by news, one at a time, in the journal's order; it is the same wherever the same news was told. A searcher
is a function of a history, a request and nothing else, so that every proposal can be re-derived from the journal. Its views
are bounded by the constants below, so that a proposal costs the same after 50,000 trials as after 500.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeAlias, TypeVar, assert_never

from morphism import GRAPHS_REMEMBERED, Budget, Choices, Graph, Lineage, Morph, choices, rebuild
from searchers.distance import Array, Outline, Places
from searchers.rows import Rows

BEST_SEEN: Final = 150
"""Finished trials with the highest accuracy that guided search looks at."""
NEWEST_SEEN: Final = 150
"""Finished trials that guided search looks at because they are the newest; with BEST_SEEN at most 300 different ones."""
IN_FLIGHT_SEEN: Final = 200
"""Trials in flight that guided search and tuning look at: the newest."""
FAILED_SEEN: Final = 50
"""Failed trials that guided search looks at: the newest."""
TUNING_SEEN: Final = 200
"""Finished trials that tuning looks at: the newest."""
PRUNED_SEEN: Final = 50
"""Points out of memory that tuning looks at: the newest."""
UNFIT_SEEN: Final = 50
"""Trials that failed by their own hyperparameters that tuning looks at: the newest."""
PARENTS: Final = 16
"""Trials that can be parents: the best that can grow and whose weights can be inherited."""

Cause: TypeAlias = Literal["", "machine", "divergence", "memory", "network"]
"""Whose failure it was; empty: nobody knows."""
OF_HYPERPARAMETERS: Final = frozenset({"divergence", "memory"})
"""Causes of failure that are batch size's and kernel size's own."""

_CHILDREN_REMEMBERED: Final = 16384
_OUTLINES_REMEMBERED: Final = 4096


class UnknownTrial(LookupError):
    """A trial was asked for that no news told of."""


@dataclass(frozen=True, slots=True)
class Space:
    """What a run's searchers may propose; it does not change during a run.

    Raises ValueError where the batch sizes make no interval or the first tuned round is none.
    """

    start: Graph
    budget: Budget
    default_batch_size: int
    """Images per accelerator."""
    smallest_batch_size: int | None
    """None: a share of the largest that can be chosen, at most the default (searchers.tpe)."""
    largest_batch_size: int
    """Before a ceiling was measured: training images / (20 · ranks), and what the configuration allows."""
    tuning_from_round: int
    """Batch size and kernel size are tuned from this round on; 4 in the paper."""

    def __post_init__(self) -> None:
        smallest = 1 if self.smallest_batch_size is None else self.smallest_batch_size
        if not 1 <= smallest <= self.largest_batch_size:
            raise ValueError(
                f"batch sizes go from a smallest, at least 1, to a largest; not from {self.smallest_batch_size!r} to "
                f"{self.largest_batch_size!r}: raise the largest or lower the smallest"
            )
        if self.default_batch_size < 1:
            raise ValueError(f"the default batch size is at least 1, not {self.default_batch_size!r}")
        if self.tuning_from_round < 1:
            raise ValueError(f"rounds count from 1; tuning cannot begin in round {self.tuning_from_round!r}")


@dataclass(frozen=True, slots=True)
class Request:
    """A proposal that is wanted."""

    number: int
    round: int
    seed: int
    starting_network: bool = False
    """The starting graph itself is wanted, whatever a searcher would choose; number 0 always wants it."""


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the space of hyperparameters that was tried and found out of memory; before rules 4 also over the budget."""

    batch_size: int
    kernel_size: int | None
    reason: str


TunedBy: TypeAlias = Literal["", "default", "startup", "tpe"]
"""How batch size and kernel size came about: not tuned, drawn at random since too little was known, by TPE's model."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An architecture, as morphs of a parent, with hyperparameters."""

    searcher: str
    parent: int | None
    morphs: tuple[Morph, ...]
    batch_size: int
    kernel_size: int | None
    pruned: tuple[Point, ...] = ()
    tuned_by: TunedBy = "default"


# --- news, in the journal's order


@dataclass(frozen=True, slots=True)
class Requested:
    """A proposal is being made somewhere, and nobody knows yet what it will be."""

    number: int


@dataclass(frozen=True, slots=True)
class Unproposed:
    """No trial comes of a request: its proposal was rejected, or its worker is gone."""

    number: int


@dataclass(frozen=True, slots=True)
class Proposed:
    """A trial is in flight from now on."""

    number: int
    round: int
    parent: int | None
    morphs: tuple[Morph, ...]
    batch_size: int
    kernel_size: int | None
    fingerprint: str
    pruned: tuple[Point, ...] = ()
    own_kernel: int | None = None
    """The kernel size of its network, tuned or not; None: nobody said it, or there is none."""
    can_grow: bool = True
    """Whether a morph is legal on it within the budget."""


@dataclass(frozen=True, slots=True)
class Began:
    """A trial is trained as one of a later round than it was proposed for: it was a spare."""

    number: int
    round: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A trial's result, as the search is told it: 0..1."""

    number: int
    accuracy: float

    def __post_init__(self) -> None:
        if not 0 <= self.accuracy <= 1:  # refuses NaN as well
            raise ValueError(f"an accuracy lies between 0 and 1; trial {self.number} was told {self.accuracy!r}")


@dataclass(frozen=True, slots=True)
class Failed:
    """A trial that ended without a result."""

    number: int
    cause: Cause = ""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A trial that never began, since the worker that it waited for, or its parent's weights, are gone: its architecture may be
    proposed again."""

    number: int


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A trial's batch did not fit into memory; it goes on with a smaller one."""

    number: int
    from_batch_size: int
    to_batch_size: int


@dataclass(frozen=True, slots=True)
class WeightsDropped:
    """A trial's weights can no longer be inherited."""

    number: int


@dataclass(frozen=True, slots=True)
class CeilingKnown:
    """No accelerator of the run should be given a larger batch than this."""

    batch_size: int


Observation: TypeAlias = (
    Requested | Unproposed | Proposed | Began | Finished | Failed | Withdrawn | Shrunk | WeightsDropped | CeilingKnown
)


class Searcher(Protocol):
    """Chooses architectures (and nothing else): see searchers.propose for the whole proposal."""

    @property
    def name(self) -> str:
        """As it stands in the journal."""
        ...

    def propose(self, history: History, request: Request) -> tuple[int | None, tuple[Morph, ...]]:
        """The parent (None: the starting graph with fresh weights) and what is to be done to it."""
        ...


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Rank: TypeAlias = tuple[float, str, int]  # (−accuracy, fingerprint, number): sorts the best first, equals firmly


@dataclass(slots=True)
class History:
    """Grown by `tell`; everything else only reads. What it remembers beyond the news is bounded and changes no answer."""

    space: Space
    trials: dict[int, Proposed] = field(default_factory=dict, init=False)
    """All that were ever proposed, by number."""
    accuracies: dict[int, float] = field(default_factory=dict, init=False)
    """Of those that finished, in the order in which they did."""
    ceiling: int | None = field(default=None, init=False)
    """The smallest measured ceiling: images per accelerator."""
    batch_sizes: dict[int, int] = field(default_factory=dict, init=False)
    """Of those that had to shrink: what they go on with."""
    places: Places = field(init=False)
    """Where on the starting graph a morph takes effect."""
    _in_flight: dict[int, Proposed] = field(default_factory=dict, init=False)
    _failed: deque[int] = field(default_factory=lambda: deque(maxlen=FAILED_SEEN), init=False)
    _unfit: deque[int] = field(default_factory=lambda: deque(maxlen=UNFIT_SEEN), init=False)
    _best: list[_Rank] = field(default_factory=list, init=False)
    _inheritable: list[_Rank] = field(default_factory=list, init=False)
    _dropped: set[int] = field(default_factory=set, init=False)
    _pruned: deque[tuple[int, Point]] = field(default_factory=lambda: deque(maxlen=PRUNED_SEEN), init=False)
    _open: set[int] = field(default_factory=set, init=False)
    _holders: dict[str, int] = field(default_factory=dict, init=False)
    _graphs: OrderedDict[int, Graph] = field(default_factory=OrderedDict, init=False, repr=False)
    _known_children: OrderedDict[tuple[int | None, Morph], None] = field(
        default_factory=OrderedDict, init=False, repr=False
    )
    _outlines: OrderedDict[int, Outline] = field(default_factory=OrderedDict, init=False, repr=False)
    _rows: Rows = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.places = Places.of(self.space.start)
        self._rows = Rows(len(self.places.untouched.growth))

    # --- telling

    def tell(self, observations: Iterable[Observation]) -> None:
        """Takes in what happened, in order; each costs the same however long the history is.

        Raises UnknownTrial for news of a trial that was not proposed, ValueError for a number proposed twice.
        """
        for one in observations:
            match one:
                case Requested(number):
                    self._open.add(number)
                case Unproposed(number):
                    self._open.discard(number)
                case Proposed():
                    self._propose(one)
                case Began(number, round_):
                    begun = replace(self.trial(number), round=round_)
                    self.trials[number] = begun
                    if number in self._in_flight:
                        self._in_flight[number] = begun
                case Finished(number, accuracy):
                    self._finish(number, accuracy)
                case Failed(number, cause):
                    trial = self.trial(number)
                    if self._in_flight.pop(number, None) is not None:
                        self._failed.append(number)
                        if cause in OF_HYPERPARAMETERS:
                            self._unfit.append(number)
                        if trial.fingerprint == self.space.start.fingerprint:
                            self._release(trial)  # every network grows from it: a run tries it again
                case Withdrawn(number):
                    trial = self.trial(number)
                    if self._in_flight.pop(number, None) is not None:
                        self._release(trial)
                case Shrunk(number, from_batch_size, to_batch_size):
                    point = Point(from_batch_size, self.own_kernel(number), "out of memory")
                    self._pruned.append((number, point))
                    self.batch_sizes[number] = to_batch_size
                case WeightsDropped(number):
                    self.trial(number)
                    self._dropped.add(number)
                    if number in self.accuracies:
                        _remove(self._inheritable, self._rank(number))
                case CeilingKnown(batch_size):
                    # that of the smallest accelerator holds for all, since any worker may be given the trial
                    self.ceiling = batch_size if self.ceiling is None else min(self.ceiling, batch_size)
                case _:
                    assert_never(one)

    def _propose(self, trial: Proposed) -> None:
        if trial.number in self.trials:
            raise ValueError(f"trial {trial.number} was proposed before; every proposal has its own number")
        if trial.parent is not None:
            self.trial(trial.parent)
        self._open.discard(trial.number)
        self.trials[trial.number] = self._in_flight[trial.number] = trial
        self._holders.setdefault(trial.fingerprint, trial.number)
        self._pruned.extend((trial.number, point) for point in trial.pruned)

    def _release(self, trial: Proposed) -> None:
        if self._holders.get(trial.fingerprint) == trial.number:
            del self._holders[trial.fingerprint]
            self._known_children.clear()  # one of them may be free again

    def _finish(self, number: int, accuracy: float) -> None:
        self.trial(number)
        if self._in_flight.pop(number, None) is None:
            return  # a trial has one end; the journal's first word of it holds
        self.accuracies[number] = accuracy
        rank = self._rank(number)
        if len(self._best) < BEST_SEEN or rank < self._best[-1]:
            insort(self._best, rank)
            del self._best[BEST_SEEN:]
        if number not in self._dropped and self.trials[number].can_grow:
            insort(self._inheritable, rank)

    def _rank(self, number: int) -> _Rank:
        return (-self.accuracies[number], self.trials[number].fingerprint, number)

    # --- views

    def trial(self, number: int) -> Proposed:
        """The trial of that number; raises UnknownTrial where there is none."""
        try:
            return self.trials[number]
        except KeyError:
            raise UnknownTrial(
                f"trial {number!r} was never proposed; news come in the journal's order, {len(self.trials)} are known"
            ) from None

    def in_flight(self) -> Mapping[int, Proposed]:
        """Proposed, and neither finished nor failed."""
        return MappingProxyType(self._in_flight)

    def parents(self) -> tuple[int, ...]:
        """The best PARENTS finished trials that can grow and whose weights can be inherited, best first.

        Equal accuracies go by fingerprint, then by number.
        """
        return tuple([number for _, _, number in self._inheritable[:PARENTS]])

    def were_weights_dropped(self, number: int) -> bool:
        """Whether a trial's weights are known to be gone."""
        return number in self._dropped

    def inheritable(self) -> int:
        """How many finished trials can grow and be inherited from."""
        return len(self._inheritable)

    def inheritable_at(self, index: int) -> int:
        """The trial at that place, 0 for the best, among those."""
        return self._inheritable[index][2]

    def finished_seen(self) -> tuple[int, ...]:
        """What guided search looks at: the BEST_SEEN best and the NEWEST_SEEN newest finished trials, by number."""
        return tuple(
            sorted({number for _, _, number in self._best}.union(islice(reversed(self.accuracies), NEWEST_SEEN)))
        )

    def without_result_seen(self) -> tuple[int, ...]:
        """The IN_FLIGHT_SEEN newest trials in flight and the FAILED_SEEN newest failed ones, by number."""
        return tuple(sorted({*islice(reversed(self._in_flight), IN_FLIGHT_SEEN), *self._failed}))

    def finished_newest(self) -> tuple[int, ...]:
        """The TUNING_SEEN newest finished trials, oldest of them first."""
        return tuple(reversed(tuple(islice(reversed(self.accuracies), TUNING_SEEN))))

    def in_flight_newest(self) -> tuple[int, ...]:
        """The IN_FLIGHT_SEEN newest trials in flight, oldest of them first."""
        return tuple(reversed(tuple(islice(reversed(self._in_flight), IN_FLIGHT_SEEN))))

    def pruned_newest(self) -> tuple[tuple[int, Point], ...]:
        """The PRUNED_SEEN newest points that were out of memory, oldest of them first, each with its trial's number."""
        return tuple(self._pruned)

    def unfit_newest(self) -> tuple[int, ...]:
        """The UNFIT_SEEN newest trials that failed by their own hyperparameters, oldest of them first."""
        return tuple(self._unfit)

    def batch_size(self, number: int) -> int:
        """The batch size of a trial; where it had to shrink, the one that it goes on with."""
        return self.batch_sizes.get(number, self.trial(number).batch_size)

    def own_kernel(self, number: int) -> int | None:
        """The kernel size of a trial's network; where that was not said, the tuned one."""
        trial = self.trial(number)
        return trial.kernel_size if trial.own_kernel is None else trial.own_kernel

    def holder(self, fingerprint: str) -> int | None:
        """The trial that an architecture belongs to; None where it may be proposed.

        It belongs to a trial that waits, trains, has finished or has failed. One that was withdrawn gives it back; so does a
        failed one of the starting graph.
        """
        return self._holders.get(fingerprint)

    def is_taken(self, fingerprint: str) -> bool:
        """Whether a searcher leaves an architecture alone: it belongs to a trial, or is the starting graph.

        Nobody searches for the starting graph: it is asked for.
        """
        return fingerprint in self._holders or fingerprint == self.space.start.fingerprint

    def open_requests(self, besides: int) -> int:
        """How many proposals are being made at this moment, as far as was told, not counting that of number `besides`."""
        return len(self._open) - (besides in self._open)

    # --- what is derived from lineages, and remembered

    def graph(self, number: int | None) -> Graph:
        """The graph of a trial, rebuilt from its lineage (and remembered); of the starting graph for None."""
        if number is None:
            return self.space.start
        unbuilt: list[int] = []
        graph = self.space.start
        for ancestor in self._lineage(number):
            if ancestor in self._graphs:
                self._graphs.move_to_end(ancestor)
                graph = self._graphs[ancestor]
                break
            unbuilt.append(ancestor)
        for descendant in reversed(unbuilt):
            graph = rebuild(Lineage(graph, self.trials[descendant].morphs))
            _remember(self._graphs, descendant, graph, GRAPHS_REMEMBERED)
        return graph

    def outline(self, number: int | None) -> Outline:
        """How far a trial's architecture has grown, place by place; made from its lineage, without any graph."""
        if number is None:
            return self.places.untouched
        unmade: list[int] = []
        outline = self.places.untouched
        for ancestor in self._lineage(number):
            if ancestor in self._outlines:
                self._outlines.move_to_end(ancestor)
                outline = self._outlines[ancestor]
                break
            unmade.append(ancestor)
        for descendant in reversed(unmade):
            outline = self.places.grown(outline, self.trials[descendant].morphs)
            _remember(self._outlines, descendant, outline, _OUTLINES_REMEMBERED)
        return outline

    def descriptors(self, numbers: Sequence[int]) -> Array:
        """One row a trial, as searchers.distance describes architectures, made of its lineage once."""
        missing = self._rows.missing(numbers)
        if missing:
            self._rows.keep(missing, self.places.descriptors([self.outline(number) for number in missing]))
        return self._rows.of(numbers)

    def fingerprint(self, number: int | None) -> str:
        """The fingerprint of a trial's architecture; of the starting graph for None."""
        return self.space.start.fingerprint if number is None else self.trial(number).fingerprint

    def grown(self, parent: int | None, morphs: tuple[Morph, ...]) -> Graph:
        """The graph of a child that need not be a trial; raises IllegalMorph."""
        return rebuild(Lineage(self.graph(parent), morphs))

    def is_known_child(self, parent: int | None, morph: Morph) -> bool:
        """Whether remember_child was told of it, and it was not forgotten since."""
        return (parent, morph) in self._known_children

    def remember_child(self, parent: int | None, morph: Morph) -> None:
        """That a parent with this morph is an architecture that is taken: it need not be built to be known again.

        After thousands of proposals most of what is drawn next to one parent is.
        """
        _remember(self._known_children, (parent, morph), None, _CHILDREN_REMEMBERED)

    def choices(self, number: int | None) -> Choices:
        """The morphs that are legal on a trial's graph within the budget."""
        return choices(self.graph(number), self.space.budget)

    def _lineage(self, number: int) -> Iterator[int]:
        """The trial, its parent, and so on up to the one that grew from the starting graph."""
        ancestor: int | None = number
        while ancestor is not None:
            trial = self.trial(ancestor)
            yield ancestor
            ancestor = trial.parent


def _remember(memory: OrderedDict[_Key, _Value], key: _Key, value: _Value, limit: int) -> None:
    memory[key] = value
    if len(memory) > limit:
        memory.popitem(last=False)


def _remove(ranks: list[_Rank], rank: _Rank) -> None:
    index = bisect_left(ranks, rank)
    if index < len(ranks) and ranks[index] == rank:
        del ranks[index]
