"""Laws of what a searcher may look at."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morphism import Deepen, apply, rebuild
from morphism.grow import Lineage
from searchers.history import (
    BEST_SEEN,
    FAILED_SEEN,
    IN_FLIGHT_SEEN,
    NEWEST_SEEN,
    PARENTS,
    Cause,
    CeilingKnown,
    FailedTrial,
    Finished,
    History,
    Observation,
    ReducedBatch,
    Space,
    TrialInFlight,
    WeightsDropped,
)
from searchers.searcher_config import RandomConf
from tests.builders.history import SMALL, Run, runs, space

RANDOM = RandomConf().build()


def grown(history: History, numbers: range) -> None:
    """Trials of the starting graph, one Deepen each, with invented fingerprints."""
    morph = history.choices(None).of(Deepen)[0]
    history.observe([TrialInFlight(number, 1, None, (morph,), 64, None, f"{number:032x}") for number in numbers])


def history_of(count: int, accuracy: float = 0.5) -> History:
    history = History(space())
    grown(history, range(count))
    history.observe([Finished(number, accuracy) for number in range(count)])
    return history


@settings(max_examples=15, deadline=None)
@given(runs(RANDOM, None, space()))
def test_a_trials_graph_is_its_lineage_rebuilt(run: Run) -> None:
    for number in run.history.trials:
        morphs = []
        ancestor: int | None = number
        while ancestor is not None:
            morphs.append(run.history.trials[ancestor].morphs)
            ancestor = run.history.trials[ancestor].parent
        whole = tuple(morph for few in reversed(morphs) for morph in few)

        assert run.replayed(len(run.observations)).graph(number) == rebuild(Lineage(SMALL, whole))


def test_a_trial_is_in_flight_until_it_finished_or_failed() -> None:
    history = History(space())
    grown(history, range(3))
    assert set(history.in_flight) == {0, 1, 2}

    history.observe([Finished(0, 0.5), FailedTrial(2)])

    assert set(history.in_flight) == {1}
    assert history.without_result_seen() == (1, 2)


def test_a_trials_first_end_holds_and_late_words_change_nothing() -> None:
    history = history_of(1)

    history.observe([Finished(0, 0.9), FailedTrial(0)])

    assert history.accuracies == {0: 0.5}
    assert history.without_result_seen() == ()


def test_parents_are_the_best_trials_with_stored_weights() -> None:
    history = History(space())
    grown(history, range(40))
    history.observe([Finished(number, 0.5 + (number % 2) / 10) for number in range(40)])

    assert history.parents() == tuple(range(1, 33, 2))
    history.observe([WeightsDropped(1), WeightsDropped(2)])
    assert history.parents() == (*range(3, 35, 2),)
    assert len(history.parents()) == PARENTS


def test_weights_dropped_before_the_result_are_not_inherited() -> None:
    history = History(space())
    grown(history, range(1))

    history.observe([WeightsDropped(0), Finished(0, 0.9)])

    assert history.parents() == ()
    assert history.finished_seen() == (0,)


def test_a_network_that_cannot_grow_is_no_parent() -> None:
    history = History(space())
    grown(history, range(1))
    history.observe(
        [TrialInFlight(1, 1, None, (), 64, None, "full", can_grow=False), Finished(1, 0.9), Finished(0, 0.5)]
    )

    assert history.parents() == (0,)
    assert (history.inheritable(), history.inheritable_at(0)) == (1, 0)
    assert history.finished_seen() == (0, 1)  # what it reached is looked at all the same
    history.observe([WeightsDropped(1)])
    assert history.parents() == (0,)


def test_only_failures_by_hyperparameters_are_kept_for_tuning() -> None:
    history = History(space())
    grown(history, range(5))
    causes: list[Cause] = ["machine", "divergence", "", "memory", "network"]

    history.observe([FailedTrial(number, cause) for number, cause in enumerate(causes)])

    assert list(history.unfit) == [1, 3]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_views_do_not_depend_on_the_grouping_of_observations(accuracies: list[float]) -> None:
    one, many = History(space()), History(space())
    morph = one.choices(None).of(Deepen)[0]
    observations = [
        TrialInFlight(number, 1, None, (morph,), 64, None, f"{number:032x}") for number in range(len(accuracies))
    ]
    results = [Finished(number, accuracy) for number, accuracy in enumerate(accuracies)]
    one.observe([*observations, *results])
    everything: list[Observation] = [*observations, *results]
    for item in everything:
        many.observe([item])

    assert one.parents() == many.parents()
    assert one.finished_seen() == many.finished_seen()
    assert list(one.parents()) == sorted(range(len(accuracies)), key=lambda n: (-accuracies[n], f"{n:032x}"))[:PARENTS]


def test_guided_search_sees_a_bounded_set_with_best_and_newest() -> None:
    history = History(space())
    count = 3000
    grown(history, range(count))
    # the best come first
    history.observe([Finished(number, 1 - number / count) for number in range(count)])

    seen = history.finished_seen()

    assert seen == (*range(BEST_SEEN), *range(count - NEWEST_SEEN, count))


def test_only_the_newest_in_flight_and_failed_trials_are_used() -> None:
    history = History(space())
    grown(history, range(1000))
    history.observe([FailedTrial(number) for number in range(400)])

    seen = history.without_result_seen()

    assert seen == (*range(400 - FAILED_SEEN, 400), *range(1000 - IN_FLIGHT_SEEN, 1000))


def test_the_smallest_ceiling_holds() -> None:
    history = History(space())

    history.observe([CeilingKnown(100), CeilingKnown(40), CeilingKnown(80)])

    assert history.ceiling == 40


def test_a_batch_that_shrank_is_known_and_its_point_is_pruned() -> None:
    history = history_of(1)

    history.observe([ReducedBatch(0, 64, 32)])

    assert history.batch_sizes == {0: 32}
    ((number, point),) = history.pruned
    assert (number, point.batch_size, point.kernel_size, point.reason) == (0, 64, None, "out of memory")


def test_the_starting_graph_counts_as_proposed_at_first() -> None:
    assert History(space()).is_taken(SMALL.fingerprint)


def test_a_space_without_a_range_of_batches_is_refused() -> None:
    with pytest.raises(ValueError, match="has 8 to 4"):
        space(largest=4)
    with pytest.raises(ValueError, match="has 0"):
        space(tuning_from_round=0)
    with pytest.raises(ValueError, match="default_batch_size"):
        Space(SMALL, space().budget, 0, 8, 16, 4)


def test_graphs_outside_the_cache_are_rebuilt_equal() -> None:
    history = History(space())
    for number in range(12):
        parent = number - 1 if number else None
        morph = history.choices(parent).of(Deepen)[0]
        graph, _ = apply(history.graph(parent), morph)
        history.observe([TrialInFlight(number, 1, parent, (morph,), 64, None, graph.fingerprint)])
    first = history.graph(5)
    for number in range(12, 100):
        history.observe(
            [TrialInFlight(number, 1, None, (history.choices(None).of(Deepen)[0],), 64, None, f"{number:032x}")]
        )
        history.graph(number)

    assert history.graph(5) == first
    assert history.graph(11).fingerprint == history.trials[11].fingerprint
