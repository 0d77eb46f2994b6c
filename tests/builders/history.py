"""Random histories of runs with failures."""

from __future__ import annotations

from hypothesis import strategies as st

from morphism import Budget, Graph, apply, start
from searchers.history import (
    CeilingKnown,
    FailedTrial,
    Finished,
    History,
    Observation,
    Proposal,
    ReducedBatch,
    Request,
    Searcher,
    Space,
    TrialInFlight,
    WeightsDropped,
)
from searchers.propose import propose
from searchers.tpe import Tpe

SMALL = start("digits_small", image=8)


def space(
    graph: Graph = SMALL,
    budget: Budget | None = None,
    default: int = 64,
    largest: int = 128,
    tuning_from_round: int = 4,
) -> Space:
    return Space(graph, budget or Budget.of(graph), default, 8, largest, tuning_from_round)


def proposed(history: History, proposal: Proposal, request: Request) -> TrialInFlight:
    """Return the observation of a proposal, as the driver records it."""
    graph = history.graph(proposal.parent)
    for morph in proposal.morphs:
        graph, _ = apply(graph, morph)
    return TrialInFlight(
        request.number,
        request.round,
        proposal.parent,
        proposal.morphs,
        proposal.batch_size,
        proposal.kernel_size,
        graph.fingerprint,
        proposal.pruned,
    )


class Run:
    """Small run that requests proposals and records their results."""

    def __init__(self, searcher: Searcher, tuner: Tpe | None, at: Space, seed: int = 0) -> None:
        self.searcher, self.tuner, self.seed = searcher, tuner, seed
        self.history = History(at)
        self.observations: list[Observation] = []
        self.requests: list[tuple[int, Request, Proposal]] = []
        """For each proposal: number of observations before it, request, and proposal."""

    def observe(self, observation: Observation) -> None:
        self.history.observe([observation])
        self.observations.append(observation)

    def ask(self, round: int = 1) -> TrialInFlight:
        request = Request(len(self.requests), round, self.seed)
        proposal = propose(self.searcher, self.history, request, self.tuner)
        self.requests.append((len(self.observations), request, proposal))
        observation = proposed(self.history, proposal, request)
        self.observe(observation)
        return observation

    def replayed(self, upto: int) -> History:
        """Return another history with the same observations."""
        history = History(self.history.space)
        history.observe(self.observations[:upto])
        return history


@st.composite
def runs(draw: st.DrawFn, searcher: Searcher, tuner: Tpe | None, at: Space, steps: int = 25) -> Run:
    """Draw a run with several trials in flight and few, equal, missing or late results."""
    run = Run(searcher, tuner, at, draw(st.integers(0, 3)))
    accuracies = st.sampled_from([0.0, 0.1, 0.5, 0.5, 0.9, 1.0])
    for step in range(draw(st.integers(1, steps))):
        flying = sorted(run.history.in_flight)
        match draw(st.sampled_from(["ask", "ask", "finish", "finish", "fail", "shrink", "drop", "ceiling"])):
            case "finish" if flying:
                run.observe(Finished(draw(st.sampled_from(flying)), draw(accuracies)))
            case "fail" if flying:
                run.observe(FailedTrial(draw(st.sampled_from(flying))))
            case "shrink" if flying:
                number = draw(st.sampled_from(flying))
                size = run.history.batch_sizes.get(number, run.history.trials[number].batch_size)
                run.observe(ReducedBatch(number, size, max(1, size // 2)))
            case "drop" if run.history.accuracies:
                run.observe(WeightsDropped(draw(st.sampled_from(sorted(run.history.accuracies)))))
            case "ceiling":
                run.observe(CeilingKnown(draw(st.sampled_from([4, 20, 100, 4096]))))
            case _:
                run.ask(1 + step // 4)
    return run
