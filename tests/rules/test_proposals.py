"""The driver's check of proposals: the journal only gets proposals that follow from their lineage."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from aiperf.journal.events import ProposalRequested, TrialProposed, TrialRejected
from aiperf.journal.messages import ProposalReturned
from aiperf.rules.proposals import Proposer, check, facts_of, make, of_proposal
from morphism import JSON, Budget, Graph, apply, cost, decode_morph, start
from searchers.history import Finished, History, Space, WeightsDropped, WithdrawnTrial
from searchers.history import TrialInFlight as Told
from searchers.searcher_config import RandomConf

SMALL = start("digits_small", image=8)
PROPOSER = Proposer(RandomConf(morphs=2).build(), None)
REQUEST = ProposalRequested(at=1.0, number=1, worker=0, round=1, seed=7, position=3)


def history(budget: Budget | None = None) -> History:
    """History of a run in which the starting graph was trained."""
    told = History(Space(SMALL, budget or Budget.of(SMALL), 64, 8, 128, tuning_from_round=4))
    told.observe([Told(0, 1, None, (), 64, None, SMALL.fingerprint), Finished(0, 0.5)])
    return told


def proposed(*morphs: dict[str, JSON], parent: int | None = 0) -> ProposalReturned:
    plain: tuple[dict[str, Any], ...] = morphs
    return ProposalReturned(
        number=1,
        searcher="random",
        parent=parent,
        morphs=plain,
        batch_size=64,
        kernel_size=None,
        pruned=(),
        seconds=0.25,
    )


def test_a_proposal_is_written_down_with_what_its_lineage_gives() -> None:
    word = make(PROPOSER, history(), REQUEST)
    assert isinstance(word, ProposalReturned)

    event = check(history(), REQUEST, word, at=2.0)

    graph = SMALL
    for morph in word.morphs:
        graph, _ = apply(graph, decode_morph(morph))
    counted = cost(Graph(graph.nodes))  # checked as a whole and counted again
    assert isinstance(event, TrialProposed)
    assert (event.at, event.number, event.position, event.seed, event.parent) == (2.0, 1, 3, 7, word.parent)
    assert event.morphs == list(word.morphs)
    assert event.fingerprint == graph.fingerprint
    assert (event.forward_flops, event.backward_flops, event.validation_flops, event.parameters) == (
        counted.forward_flops,
        counted.backward_flops,
        counted.forward_validation_flops,
        counted.parameters,
    )


def test_proposal_that_inherits_missing_weights_is_rejected() -> None:
    told = history()
    word = proposed({"kind": "deepen", "after": "stem.relu"})
    assert isinstance(check(told, REQUEST, word, at=2.0), TrialProposed)

    told.observe([WeightsDropped(0)])

    event = check(told, REQUEST, word, at=2.0)
    assert isinstance(event, TrialRejected) and event.reason == "the weights of its parent, trial 0, are gone"


WRONG: list[tuple[ProposalReturned, str]] = [
    (proposed({"kind": "deepen", "after": "stem.relu"}, parent=9), "its parent, trial 9, is not in the journal"),
    (proposed({"kind": "deepen", "after": "nowhere"}), "cannot deepen after 'nowhere': no node has this name"),
    (
        proposed({"kind": "deepen", "after": "stem.relu"}, {"kind": "deepen", "after": "deepen2.relu"}),
        "cannot deepen after 'deepen2.relu': no node has this name",
    ),
    (proposed({"kind": "kernel", "convolution": "stem.conv", "kernel": 5}), "cannot enlarge 'stem.conv'"),
    (proposed({"kind": "widen", "convolution": "stem.conv", "channels": 32.0, "seed": 0}), "must be an integer"),
    (proposed({"kind": "explode"}), "a morph must be an object with kind"),
    (
        proposed({"kind": "kernel", "convolution": "stage3.block2.conv2", "kernel": 5}),
        "a kernel of 5 is larger than the maps of 'stage3.block2.conv2' can use",
    ),
    (
        proposed({"kind": "widen", "convolution": "stem.conv", "channels": 4096, "seed": 0}),
        "over the budget of operations, parameters and memory",
    ),
]


@pytest.mark.parametrize(("word", "offence"), WRONG)
def test_wrong_proposal_is_rejected_despite_cached_legal_ones(word: ProposalReturned, offence: str) -> None:
    told = history()
    assert isinstance(check(told, REQUEST, proposed({"kind": "deepen", "after": "stem.relu"}), at=2.0), TrialProposed)

    for _ in range(2):  # a rejected proposal is not cached as legal
        event = check(told, REQUEST, word, at=2.0)

        assert isinstance(event, TrialRejected) and event.number == 1
        assert offence in event.reason


def test_event_records_own_kernel_and_room_to_grow() -> None:
    one: dict[str, JSON] = {"kind": "kernel", "convolution": "stage1.block1.conv1", "kernel": 7}
    event = check(history(), REQUEST, proposed(one), at=2.0)
    assert isinstance(event, TrialProposed)
    assert (event.own_kernel, event.can_grow, event.tuned_by) == (3, True, "")

    exactly = Budget(event.forward_flops, None, None)

    full = check(history(exactly), REQUEST, proposed(one), at=2.0)
    assert isinstance(full, TrialProposed) and not full.can_grow


def test_what_one_budget_allows_is_rejected_under_a_smaller_one() -> None:
    word = proposed({"kind": "deepen", "after": "stem.relu"})

    assert isinstance(check(history(), REQUEST, word, at=2.0), TrialProposed)
    assert isinstance(check(history(Budget.of(SMALL, 1.0)), REQUEST, word, at=2.0), TrialRejected)


@pytest.mark.parametrize("number", range(1, 9))
def test_the_facts_of_a_proposal_do_not_depend_on_the_cache(number: int) -> None:
    word = make(PROPOSER, history(), replace(REQUEST, number=number))
    assert isinstance(word, ProposalReturned)
    morphs = tuple(map(decode_morph, word.morphs))
    kept = of_proposal(history(), word.parent, morphs)
    assert kept is of_proposal(history(), word.parent, morphs)

    alone = Graph(history().grown(word.parent, morphs).nodes)
    assert kept == facts_of(alone, Budget.of(SMALL), SMALL)


def test_repeated_architecture_is_rejected_with_its_trial() -> None:
    """Two workers that request at the same moment have the same history: the second answer is refused."""
    told = history()
    word = proposed({"kind": "deepen", "after": "stem.relu"})
    first = check(told, REQUEST, word, at=2.0)
    assert isinstance(first, TrialProposed)
    told.observe([Told(4, 1, 0, tuple(map(decode_morph, word.morphs)), 64, None, first.fingerprint)])

    second = check(told, REQUEST, word, at=3.0)
    assert isinstance(second, TrialRejected) and second.reason == "its architecture is that of trial 4"

    told.observe([WithdrawnTrial(4)])  # it never started, so the architecture is free again
    assert isinstance(check(told, REQUEST, word, at=4.0), TrialProposed)


def test_starting_graph_is_rejected_after_one_has_finished() -> None:
    fresh = History(history().space)
    assert isinstance(check(fresh, REQUEST, proposed(parent=None), at=2.0), TrialProposed)

    event = check(history(), REQUEST, proposed(parent=None), at=2.0)

    assert isinstance(event, TrialRejected) and event.reason == "its architecture is that of trial 0"
