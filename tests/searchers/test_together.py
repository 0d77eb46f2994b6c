"""Concurrent proposals: requests with one history, and taken architectures."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morphism import Deepen, Graph, apply, start
from searchers.growth import grown_at_random
from searchers.history import (
    FailedTrial,
    Finished,
    History,
    Request,
    Requested,
    RequestWithoutTrial,
    Searcher,
    TrialInFlight,
    WithdrawnTrial,
)
from searchers.propose import propose
from searchers.searcher_config import EvolutionConf, MorphismConf, RandomConf
from tests.builders.history import SMALL, space

SEARCHERS: list[Searcher] = [MorphismConf().build(), EvolutionConf().build(), RandomConf().build()]
every_searcher = pytest.mark.parametrize("searcher", SEARCHERS, ids=lambda searcher: searcher.name)

DEEPER = (Deepen("stem.relu"),)
DEEPER_GRAPH, _ = apply(SMALL, DEEPER[0])


def trial(number: int, graph: Graph = SMALL, *morphs: Deepen) -> TrialInFlight:
    return TrialInFlight(number, 1, None, morphs, 64, None, graph.fingerprint)


def propose_together(searcher: Searcher, history: History, first: int, count: int) -> Counter[str]:
    """Return the fingerprints of several proposals with one history."""
    found: Counter[str] = Counter()
    for number in range(first, first + count):
        proposal = propose(searcher, history, Request(number, 1, 0), None)
        found[history.grown(proposal.parent, proposal.morphs).fingerprint] += 1
    return found


@every_searcher
def test_64_requests_that_see_an_empty_history_hardly_ever_agree(searcher: Searcher) -> None:
    history = History(space(start("resnet50_v1")))

    found = propose_together(searcher, history, first=1, count=64)

    # 64 drawn evenly from the 451 morphs of ResNet-50 and their pairs: a handful of repeats
    assert len(found) >= 52
    assert max(found.values()) <= 4


def test_concurrent_requests_do_not_all_take_the_best_child() -> None:
    """With results the bound has no ties: only knowing of the others makes the second of them choose another child."""
    searcher = MorphismConf(parents=1, candidates=400, morphs=1, beta=0.0).build()
    history = History(space())
    history.observe([trial(0), Finished(0, 0.5), trial(1, DEEPER_GRAPH, *DEEPER), Finished(1, 0.9)])
    alone = propose_together(searcher, history, first=2, count=12)

    history.observe([Requested(number) for number in range(2, 14)])
    together = propose_together(searcher, history, first=2, count=12)

    assert len(together) > len(alone)
    assert max(together.values()) < max(alone.values())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=30))
def test_as_many_requests_are_open_as_were_made_and_not_answered(answers: list[tuple[int, bool]]) -> None:
    history = History(space())
    expected: set[int] = set()

    for number, is_made in answers:
        history.observe([Requested(number) if is_made else RequestWithoutTrial(number)])
        expected = expected | {number} if is_made else expected - {number}

        # a request does not compete with itself, before or after its observation arrives
        assert history.open_requests(3) == len(expected - {3})

    history.observe([Requested(9), trial(9)])
    assert history.open_requests(3) == len(expected - {3})


def test_an_architecture_is_taken_until_its_trial_is_withdrawn() -> None:
    history = History(space())
    assert history.holder(DEEPER_GRAPH.fingerprint) is None

    history.observe([trial(1, DEEPER_GRAPH, *DEEPER)])
    assert history.holder(DEEPER_GRAPH.fingerprint) == 1
    assert history.is_taken(DEEPER_GRAPH.fingerprint)

    history.observe([WithdrawnTrial(1)])
    assert history.holder(DEEPER_GRAPH.fingerprint) is None
    assert not history.is_taken(DEEPER_GRAPH.fingerprint)
    assert not history.in_flight and not history.without_result_seen()

    history.observe([trial(2, DEEPER_GRAPH, *DEEPER), FailedTrial(2)])
    assert history.holder(DEEPER_GRAPH.fingerprint) == 2


@pytest.mark.parametrize("end", [FailedTrial(0), WithdrawnTrial(0)])
def test_the_starting_graph_is_repeated_until_a_trial_finishes(end: FailedTrial | WithdrawnTrial) -> None:
    history = History(space())

    history.observe([trial(0), end])
    assert history.holder(SMALL.fingerprint) is None
    assert history.is_taken(SMALL.fingerprint)  # it is requested, and never proposed by the search

    history.observe([trial(1), Finished(1, 0.5)])
    assert history.holder(SMALL.fingerprint) == 1


def test_a_child_may_return_after_its_trial_was_withdrawn() -> None:
    """The cache of known children does not change proposals."""

    class Always:
        """Draws the first kind and the first morph of it."""

        def random(self) -> float:
            return 0.0

    history, first = History(space()), Always()
    morphs = grown_at_random(history, None, 1, first)  # type: ignore[arg-type]
    assert morphs is not None
    child = history.grown(None, morphs)
    history.observe([TrialInFlight(1, 1, None, morphs, 64, None, child.fingerprint)])
    assert grown_at_random(history, None, 1, first) is None  # type: ignore[arg-type]

    history.observe([WithdrawnTrial(1)])

    assert grown_at_random(history, None, 1, first) == morphs  # type: ignore[arg-type]
