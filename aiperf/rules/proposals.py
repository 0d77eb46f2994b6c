"""Proposals: from a request to a proposal (on workers), from a proposal to a journal event, and from events to the history."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiperf.errors import OtherRules
from aiperf.journal import events
from aiperf.journal.events import COUNTS, FollowedValues, ProposalRequested, RunStarted, TrialProposed, TrialRejected
from aiperf.journal.legality import TrialState, check_state
from aiperf.journal.messages import ProposalFailed, ProposalReturned, recorded
from aiperf.option_limits import hold
from aiperf.rules.state import Run, Worker
from morphism import (
    Architecture,
    Budget,
    DamagedMorph,
    Graph,
    IllegalMorph,
    Morph,
    choices,
    cost_of,
    decode_morph,
    encode_morph,
    unreached,
)
from searchers.growth import NothingToPropose, own_size
from searchers.history import (
    CeilingKnown,
    FailedTrial,
    Finished,
    History,
    Observation,
    OutOfMemoryPoint,
    ReducedBatch,
    Request,
    Requested,
    RequestWithoutTrial,
    Searcher,
    SpareBegan,
    TrialInFlight,
    WeightsDropped,
    WithdrawnTrial,
)
from searchers.propose import REPEATABLE_RULES, propose
from searchers.searcher_config import HpoConf, SearcherConf

if TYPE_CHECKING:
    from searchers.tpe import Tpe


@dataclass(frozen=True, slots=True)
class Proposer:
    """Searcher of architectures and tuner of hyperparameters (None for no tuning)."""

    searcher: Searcher
    tuner: Tpe | None


def proposer_of(searcher: SearcherConf, hpo: HpoConf) -> Proposer:
    """Return searcher and tuner, and import their libraries. Raise BadConfiguration if a value is out of range."""
    hold(searcher, "searcher")
    hold(hpo, "hpo")
    return Proposer(searcher.build(), hpo.build())


def check_rules(first: RunStarted) -> None:
    """Raise OtherRules if this installation cannot repeat proposals by the run's version of the rules."""
    if first.proposal_rules not in REPEATABLE_RULES:
        made_by = [f"{name} {first.versions[name]}" for name in ("aiperf-cluster", "optuna") if name in first.versions]
        versions = " and ".join(map(str, REPEATABLE_RULES))
        raise OtherRules(
            f"all proposals of a run follow one version of the proposal rules. The run '{first.run}' was made by version "
            f"{first.proposal_rules}, this aiperf has versions {versions}. Install the aiperf of that run "
            f"({', '.join(made_by)})"
        )


def make(proposer: Proposer, history: History, order: ProposalRequested) -> ProposalReturned | ProposalFailed:
    """Return a proposal, or ProposalFailed for nothing new. Only `seconds` depends on more than the arguments."""
    began = time.perf_counter()
    try:
        request = Request(order.number, order.round, order.seed, order.starting_network)
        proposal = propose(proposer.searcher, history, request, proposer.tuner)
    except NothingToPropose as nothing:
        return ProposalFailed(number=order.number, reason=str(nothing))
    return ProposalReturned(
        number=order.number,
        searcher=proposal.searcher,
        parent=proposal.parent,
        morphs=tuple(encode_morph(morph) for morph in proposal.morphs),
        batch_size=proposal.batch_size,
        kernel_size=proposal.kernel_size,
        pruned=tuple(asdict(point) for point in proposal.pruned),
        seconds=time.perf_counter() - began,
        tuned_by=proposal.tuned_by,
    )


def check(
    history: History, request: ProposalRequested, returned: ProposalReturned, at: float
) -> TrialProposed | TrialRejected:
    """Return TrialProposed with the counted operations of the network, rebuilt from its ancestors, or TrialRejected."""

    def rejected(reason: str) -> TrialRejected:
        return TrialRejected(at=at, number=returned.number, by="check", reason=reason)

    if returned.parent is not None and returned.parent not in history.trials:
        return rejected(f"its parent, trial {returned.parent}, is not in the journal")
    if returned.parent in history.dropped:
        # The parent was among the best when the proposal was made, and has left them since.
        return rejected(f"the weights of its parent, trial {returned.parent}, are gone")
    try:
        found = of_proposal(history, returned.parent, tuple([decode_morph(morph) for morph in returned.morphs]))
    except (IllegalMorph, DamagedMorph) as error:
        return rejected(str(error))
    if found.idle is not None:
        name, kernel = found.idle
        return rejected(
            f"a kernel of {kernel} is larger than the maps of {name!r} can use: weights of it reach no pixel"
        )
    if not found.is_within_budget:
        return rejected("over the budget of operations, parameters and memory")
    if (holder := history.holder(found.counts["fingerprint"])) is not None:
        # Another worker's proposal, made at the same time, arrived first.
        return rejected(f"its architecture is that of trial {holder}")
    return described(request, returned, found, at)


class NetworkFacts(NamedTuple):
    """Values of a proposed network for its check and its event."""

    idle: tuple[str, int] | None
    """First convolution with weights that reach no pixel, and its kernel, which the parent does not have."""
    is_within_budget: bool
    own_kernel: int | None
    can_grow: bool
    counts: dict[str, Any]


_REMEMBERED: Final = 4096
_facts: OrderedDict[tuple[Graph, tuple[Morph, ...], Budget], NetworkFacts] = OrderedDict()


def of_proposal(history: History, parent: int | None, morphs: tuple[Morph, ...]) -> NetworkFacts:
    """Raise IllegalMorph if a morph does not fit. Recent facts are cached, because they are much smaller than their graph."""
    if not isinstance(history.space.start, Graph):
        return facts_of(history.architecture(parent, morphs), history.space.budget)
    before, budget = history.graph(parent), history.space.budget
    key = (before, morphs, budget)
    if key not in _facts:
        _facts[key] = facts_of(history.grown(parent, morphs), budget, before)
        if len(_facts) > _REMEMBERED:
            _facts.popitem(last=False)
    return _facts[key]


def facts_of(network: Architecture, budget: Budget, parent: Graph | None = None) -> NetworkFacts:
    graph = network if isinstance(network, Graph) else None
    idle = set() if graph is None or parent is None else unreached(graph).items() - unreached(parent).items()
    return NetworkFacts(
        idle=min(idle, default=None),
        is_within_budget=budget.allows(cost_of(network)),
        own_kernel=None if graph is None else own_size(graph),
        can_grow=graph is not None and not choices(graph, budget).is_empty(),
        counts=counts_of(network),
    )


def returned(event: TrialProposed) -> ProposalReturned:
    values = {name: getattr(event, name) for name in ProposalReturned.__struct_fields__}
    return ProposalReturned(**values | {"morphs": tuple(event.morphs), "pruned": tuple(event.pruned)})


def described(
    request: ProposalRequested,
    returned: ProposalReturned,
    network: NetworkFacts,
    at: float,
    follows: FollowedValues | None = None,
) -> TrialProposed:
    return recorded(
        TrialProposed,
        returned,
        at,
        position=request.position,
        seed=request.seed,
        morphs=list(returned.morphs),
        own_kernel=network.own_kernel,
        can_grow=network.can_grow,
        pruned=list(returned.pruned),
        follows=follows,
        **network.counts,
    )


def counts_of(network: Architecture) -> dict[str, Any]:
    counted = cost_of(network)
    costs = {name: getattr(counted, name) for name in COUNTS if name != "validation_flops"}
    return {"fingerprint": network.fingerprint, "validation_flops": counted.forward_validation_flops, **costs}


def observations(run: Run, event: events.AnyEvent) -> list[Observation]:
    """Return what an event adds to the searchers' history. `run`: state before it. Intervals and epochs are not checked."""
    match event:
        case events.Progress() | events.EpochFinished():
            return []  # nearly all events, therefore first
        case _:
            check_state(event, run)
    match event:
        case events.ProposalRequested():
            return [Requested(event.number)]
        case events.TrialRejected():
            return [RequestWithoutTrial(event.number)]
        case events.TrialProposed():
            return [
                TrialInFlight(
                    number=event.number,
                    round=run.requests[event.number].round,
                    parent=event.parent,
                    morphs=tuple(decode_morph(morph) for morph in event.morphs),
                    batch_size=event.batch_size,
                    kernel_size=event.kernel_size,
                    fingerprint=event.fingerprint,
                    pruned=tuple(OutOfMemoryPoint(**point) for point in event.pruned),
                    own_kernel=event.own_kernel,
                    can_grow=event.can_grow,
                )
            ]
        case events.TrialStarted():
            # Only spares are reported: they may be trained in a later round than the proposed one.
            return [SpareBegan(event.trial, event.round)] if event.round != run.trials[event.trial].round else []
        case events.TrialFinished():
            return [Finished(event.trial, event.reported_accuracy)]
        case events.TrialFailed():
            never_began = run.trials[event.trial].state is TrialState.WAITING
            return [WithdrawnTrial(event.trial) if never_began else FailedTrial(event.trial, event.cause)]
        case events.BatchReduced():
            return [ReducedBatch(event.trial, event.from_batch_size, event.to_batch_size)]
        case events.CheckpointDropped():
            return [WeightsDropped(event.trial)]
        case events.CeilingMeasured():
            return [CeilingKnown(event.batch_size)]
        case events.WorkerLost():
            return _withdrawals(run.workers[event.worker])
        case events.RunResumed():
            return [each for worker in run.workers.values() for each in _withdrawals(worker)]
        case _:
            return []


def _withdrawals(worker: Worker) -> list[Observation]:
    return [*map(WithdrawnTrial, worker.waiting), *map(RequestWithoutTrial, sorted(worker.requested))]
