"""Laws of tuning: TPE over the run's history, kernels that really change the network, points that are no longer allowed."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from math import log2
from statistics import fmean, median

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.samplers import TPESampler

from benchmarks import proposal_speed
from morphism import (
    Budget,
    Convolution,
    Deepen,
    Graph,
    Kernel,
    Lineage,
    apply,
    cost,
    legal,
    rebuild,
    start,
    unreached,
    useful_kernels,
)
from searchers.growth import enlarging, own_size, tunable
from searchers.history import (
    Cause,
    CeilingKnown,
    FailedTrial,
    Finished,
    History,
    ReducedBatch,
    Request,
    Space,
    TrialInFlight,
)
from searchers.propose import propose
from searchers.searcher_config import EvolutionConf, OffConf, RandomConf, TpeConf
from searchers.tpe import _Joint, _trials, batch_range, residuals
from tests.builders.history import SMALL, Run, space
from tests.builders.tuning_landscape import row, search

TPE = TpeConf().build()
RANDOM = RandomConf().build()
EVOLUTION = EvolutionConf().build()
LARGE = Budget.of(SMALL, 100)


def kernels(graph: Graph) -> list[int]:
    return [node.op.kernel for node in graph.nodes if isinstance(node.op, Convolution)]


def enlarged(graph: Graph, size: int) -> Graph:
    return rebuild(Lineage(graph, enlarging(graph, size)))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(["digits_small", "resnet20", "resnet50_v1"]), st.sampled_from([3, 5, 7]), st.integers(0, 5))
def test_a_kernel_size_enlarges_smaller_kernels_but_the_images(name: str, size: int, grown: int) -> None:
    graph = start(name)
    for number in range(grown):
        possible = legal(graph, Budget.of(graph, 10))
        graph, _ = apply(graph, possible[(number * 7919) % len(possible)])
    larger = graph
    for morph in enlarging(graph, size):
        larger, _ = apply(larger, morph)

    assert enlarged(graph, size) == larger
    assert not unreached(larger).items() - unreached(graph).items()
    for index, (node, before) in enumerate(zip(larger.nodes, graph.nodes, strict=True)):
        if isinstance(node.op, Convolution) and isinstance(before.op, Convolution):
            grows = before.op.kernel >= 3 and not graph.reads_image[index]
            room = max(useful_kernels(graph, index), default=before.op.kernel)
            assert node.op.kernel == (max(before.op.kernel, min(size, room)) if grows else before.op.kernel)


def test_the_own_size_is_that_of_most_kernels_without_the_stem() -> None:
    graph = start("resnet50_v1")
    assert "stem.conv" not in {name for name, _, _ in tunable(graph)}
    assert own_size(graph) == 3
    assert own_size(enlarged(graph, 5)) == 5
    one, _ = apply(graph, Kernel("stage1.block1.conv2", 7))
    assert own_size(one) == 3
    most = rebuild(Lineage(graph, enlarging(graph, 5)[:-2]))  # all but two of sixteen
    assert own_size(most) == 5


def test_the_own_size_ignores_maps_too_small_for_the_tuned_size() -> None:
    for size in (3, 5, 7):
        larger = enlarged(SMALL, size)  # its last maps have 2×2 pixels, without room for 5

        assert own_size(larger) == size
        assert min(kernel for _, kernel, _ in tunable(larger)) == 3


def run_of(results: int, at: Space) -> Run:
    run = Run(RANDOM, TPE, at)
    for number in range(results):
        trial = run.ask(4)
        # larger kernels and batches of 64 are the better ones
        accuracy = 0.4 + 0.05 * (trial.kernel_size or 3) - abs(trial.batch_size - 64) / 500
        run.observe(Finished(number, accuracy))
    return run


def test_rounds_before_tuning_use_default_batch_and_kernels() -> None:
    run = Run(RANDOM, TPE, space(tuning_from_round=4))

    early = [run.ask(round) for round in (1, 2, 3)]

    assert {(trial.batch_size, trial.kernel_size) for trial in early} == {(64, None)}


def test_a_measured_ceiling_holds_for_the_default_too() -> None:
    run = Run(RANDOM, TPE, space())
    run.observe(CeilingKnown(48))

    assert run.ask(1).batch_size == 48
    assert run.ask(4).batch_size <= 48


def test_without_tuning_every_round_takes_the_default() -> None:
    OffConf().build()  # makes no tuner
    run = Run(RANDOM, None, space())

    trial = run.ask(9)

    assert (trial.batch_size, trial.kernel_size) == (64, None)


def test_tuned_batches_are_on_the_grid_and_kernels_are_applied() -> None:
    run = run_of(30, space(budget=LARGE))

    first, *others = run.history.trials.values()
    assert (first.kernel_size, first.fingerprint) == (None, SMALL.fingerprint)
    for trial in others:
        assert trial.batch_size in range(8, 129, 8)
        assert trial.kernel_size in (3, 5, 7)
        graph = run.history.graph(trial.number)
        assert enlarging(graph, trial.kernel_size) == ()  # as large as its maps let it
    assert {trial.kernel_size for trial in others} == {3, 5, 7}


def test_a_late_request_of_the_starting_network_is_not_tuned() -> None:
    run = run_of(30, space(budget=LARGE))

    proposal = propose(EVOLUTION, run.history, Request(30, 9, 0, starting_network=True), TPE)

    assert (proposal.parent, proposal.morphs, proposal.kernel_size) == (None, (), None)


def test_a_childs_kernels_begin_at_its_parents_size() -> None:
    history = History(space(budget=LARGE))
    morphs = enlarging(SMALL, 5)
    history.observe([TrialInFlight(0, 4, None, morphs, 64, 5, enlarged(SMALL, 5).fingerprint), Finished(0, 0.9)])

    for number in range(1, 15):
        proposal = propose(EVOLUTION, history, Request(number, 4, 0), TPE)
        assert proposal.parent == 0
        assert proposal.kernel_size in (5, 7)


def test_tuning_learns_which_points_are_good() -> None:
    run = run_of(120, space(budget=LARGE))

    late = list(run.history.trials.values())[80:]

    assert sum(trial.kernel_size == 7 for trial in late) > len(late) / 2
    assert sum(abs(trial.batch_size - 64) <= 24 for trial in late) > len(late) / 2


@pytest.mark.parametrize("factor", [1.5, 2.5, 4.0])
def test_no_kernel_is_drawn_that_would_be_over_the_budget(factor: float) -> None:
    tight = Budget(int(factor * cost(SMALL).forward_flops), None, None)
    history = History(space(budget=tight))
    largest = 0

    for number in range(1, 40):
        proposal = propose(RANDOM, history, Request(number, 4, 0), TPE)

        graph = history.grown(proposal.parent, proposal.morphs)
        assert tight.allows(cost(graph))
        largest = max(largest, proposal.kernel_size or 3)
    assert largest == max(size for size in (3, 5, 7) if tight.allows(cost(enlarged(SMALL, size))))


def test_kernels_stay_if_the_parents_size_exceeds_the_budget() -> None:
    """The parent's kernels are 5, a child's added convolution has 3, and there is no room for 5 in it."""
    parent = enlarged(SMALL, 5)
    child, _ = apply(parent, Deepen("stem.relu"))
    history = History(space(parent, Budget(cost(child).forward_flops, None, None)))

    tuned = TPE.tune(history, Request(1, 4, 0), parent, child)

    assert (tuned.morphs, tuned.kernel_size) == ((), None)


def test_a_kernel_size_with_a_known_network_is_not_chosen() -> None:
    history = History(space(budget=LARGE))
    child, _ = apply(SMALL, Deepen("stem.relu"))
    taken = enlarged(child, 5)
    history.observe([TrialInFlight(0, 4, None, (Deepen("stem.relu"), *enlarging(child, 5)), 64, 5, taken.fingerprint)])

    chosen = {TPE.tune(history, Request(number, 4, 0), SMALL, child).kernel_size for number in range(1, 40)}

    assert chosen == {3, 7}


def test_points_out_of_memory_are_avoided_afterwards() -> None:
    """No batch above 64 fits. Tuning avoids them without a known ceiling and without differing results."""

    def large(fits: int, seed: int) -> int:
        run = Run(RANDOM, TPE, space(budget=LARGE), seed)
        for number in range(60):
            trial = run.ask(4)
            if trial.batch_size > fits:
                run.observe(ReducedBatch(number, trial.batch_size, 56))
            run.observe(Finished(number, (number * 37 % 17) / 17))
        return sum(trial.batch_size > 64 for trial in list(run.history.trials.values())[20:])

    assert sum(large(64, seed) for seed in range(3)) < sum(large(128, seed) for seed in range(3))


@pytest.mark.parametrize(
    ("ceiling", "low", "high"), [(None, 8, 128), (100, 8, 96), (8, 8, 8), (5, 5, 5), (10_000, 8, 128)]
)
def test_batches_range_from_the_smallest_to_the_ceiling_in_steps(ceiling: int | None, low: int, high: int) -> None:
    history = History(space())
    if ceiling is not None:
        history.observe([CeilingKnown(ceiling)])

    batches = batch_range(history)

    assert (batches.low, batches.high, batches.step) == (low, high, 8)


def test_only_the_batch_is_tuned_if_kernels_are_the_largest() -> None:
    graph = enlarged(SMALL, 7)
    history = History(space(graph, Budget.of(graph, 50)))

    # 7 is the parent's size already: one size is left
    assert propose(RANDOM, history, Request(1, 4, 0), TPE).kernel_size == 7


def test_optuna_is_imported_at_its_first_use_and_prints_nothing() -> None:
    script = (
        "import sys, searchers\n"
        "assert not {'optuna', 'ray', 'torch', 'scipy'} & set(sys.modules), 'heavy imports'\n"
        "from tests.searchers.test_tuning import run_of, space\n"
        "run_of(12, space())\n"
    )

    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True, timeout=120
    )

    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.parametrize("cause", ["divergence", "memory"])
def test_sizes_that_diverge_or_never_fit_are_avoided(cause: Cause) -> None:
    """Batches below 64 fail. Results of others do not depend on the batch."""

    def small(cause: Cause, seed: int) -> int:
        run = Run(RANDOM, TPE, space(budget=LARGE), seed)
        for number in range(60):
            trial = run.ask(4)
            run.observe(
                FailedTrial(number, cause) if trial.batch_size < 64 else Finished(number, (number * 37 % 17) / 17)
            )
        return sum(trial.batch_size < 64 for trial in list(run.history.trials.values())[20:])

    assert sum(small(cause, seed) for seed in range(2)) < sum(small("machine", seed) for seed in range(2)) / 2


def test_tuning_ignores_failures_of_machines() -> None:
    run = run_of(20, space(budget=LARGE))
    lost = run.ask(4)
    without = [propose(EVOLUTION, run.history, Request(number, 4, 0), TPE) for number in range(50, 60)]

    run.observe(FailedTrial(lost.number, "machine"))

    assert len(_trials(run.history)) == 20
    assert without  # it was in flight before


def test_every_tuned_trial_is_reported_with_its_real_kernel() -> None:
    history = History(space(budget=LARGE))
    history.observe(
        [
            TrialInFlight(0, 4, None, (), 64, None, "a", own_kernel=3),
            TrialInFlight(1, 4, 0, enlarging(SMALL, 5), 4096, 7, "b", own_kernel=5),
            Finished(0, 0.5),
            Finished(1, 0.6),
        ]
    )

    observed = [one.params for one in _trials(history)]

    assert observed == [{"batch_size": 64, "kernel_size": 3}, {"batch_size": 4096, "kernel_size": 5}]


def test_tuning_receives_the_residual_after_growth() -> None:
    """Accuracy increases with every morph. Batches of 64 are better at any size."""
    run = Run(RandomConf(morphs=3).build(), TPE, space(budget=LARGE))
    good: dict[int, bool] = {}
    for number in range(60):
        trial = run.ask(4)
        good[number] = number % 2 == 0
        grown = sum(run.history.outline(trial.number).growth)
        run.observe(
            Finished(number, 1 - 0.5 * 0.9 ** (grown * (1.0 if number else 0.0)) * (0.9 if good[number] else 1.0))
        )

    observed = residuals(run.history, run.history.finished_newest())
    accuracies = run.history.accuracies

    def misplaced(values: Mapping[int, float]) -> int:
        best = sorted(values, key=lambda number: values[number])[-20:]
        return sum(not good[number] for number in best)

    assert misplaced(observed) < misplaced(accuracies)
    assert residuals(run.history, ()) == {}


@pytest.mark.parametrize(
    ("ceiling", "default", "low", "high"),
    [(None, 64, 64, 128), (64, 64, 32, 64), (40, 64, 16, 40), (8, 64, 8, 8), (None, 16, 16, 128)],
)
def test_the_default_smallest_batch_is_half_the_largest(ceiling: int | None, default: int, low: int, high: int) -> None:
    history = History(replace(space(default=default), smallest_batch_size=None))
    if ceiling is not None:
        history.observe([CeilingKnown(ceiling)])

    batches = batch_range(history)

    assert (batches.low, batches.high) == (low, high)


def test_a_proposal_records_if_tuning_was_random() -> None:
    run = run_of(0, space(budget=LARGE))
    drawn: list[str] = []
    for number in range(13):
        drawn.append(propose(RANDOM, run.history, Request(number, 4 if number else 1, 0), TPE).tuned_by)
        run.ask(4)
        run.observe(Finished(number, 0.5))

    assert drawn == ["default", *["startup"] * 9, *["tpe"] * 3]


def test_the_objective_of_tuning_is_the_residual() -> None:
    run = run_of(20, space(budget=LARGE))
    values = residuals(run.history, run.history.finished_newest())

    assert [one.value for one in _trials(run.history)] == list(values.values())


def test_rounds_before_tuning_are_left_out_but_by_rules_4() -> None:
    run = Run(RANDOM, TPE, space(budget=LARGE))
    for number in range(24):
        run.ask(1 + number // 4)
        if number < 20:
            run.observe(Finished(number, 0.5 + number / 100))
    earlier = History(replace(run.history.space, learns_from_untuned=True))
    earlier.observe(run.observations)

    def told(history: History) -> list[float]:
        return [one.value for one in _trials(history) if one.value is not None]

    values = list(residuals(run.history, run.history.finished_newest()).values())
    assert told(run.history) == values[12:]
    assert told(earlier) == values
    assert len(_trials(earlier)) - len(_trials(run.history)) == 12


def test_growth_gets_no_credit_for_the_effect_of_the_batch() -> None:
    """Late trials are larger and have larger batches. Only the batch has an effect, and 64 is the best."""
    run = Run(RandomConf(morphs=3).build(), None, space(budget=LARGE, largest=512))
    batches: dict[int, int] = {}
    for number in range(60):
        trial = run.ask(1)
        grown = sum(run.history.outline(trial.number).growth)
        batches[number] = 32 + 8 * round(grown) + 8 * (number % 5)
        run.history.observe([ReducedBatch(number, 512, batches[number])])
        run.observe(Finished(number, 0.8 - 0.05 * abs(log2(batches[number] / 64)) ** 2))

    observed = residuals(run.history, run.history.finished_newest())
    best = sorted(observed, key=lambda number: observed[number])[-12:]

    ideal = sorted(batches, key=lambda number: abs(log2(batches[number] / 64)))[:12]
    furthest = max(abs(log2(batches[number] / 64)) for number in ideal)
    assert sum(abs(log2(batches[number] / 64)) <= furthest for number in best) >= 9


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(["finished", "divergence", "memory", "shrunk", "in flight"]), min_size=2, max_size=12))
def test_trials_are_numbered_in_the_order_of_their_proposals(fates: list[str]) -> None:
    """TPE weighs old trials less, by their numbers: a failure of yesterday is not older than all that finished."""
    history = History(space(budget=LARGE))
    for number, fate in enumerate(fates):
        history.observe([TrialInFlight(number, 4, None, (), 8 * (number + 1), 3, f"{number}", own_kernel=3)])
        match fate:
            case "finished":
                history.observe([Finished(number, 0.5)])
            case "shrunk":
                history.observe([ReducedBatch(number, 8 * (number + 1), 8)])
            case "divergence" | "memory":
                history.observe([FailedTrial(number, "divergence" if fate == "divergence" else "memory")])
            case _:
                pass  # still in flight

    observed = sorted(_trials(history), key=lambda one: one.number)

    assert len({one.number for one in observed}) == len(observed)
    requested = [one.params["batch_size"] for one in observed if one.params["batch_size"] > 8]
    assert requested == sorted(requested)
    assert all(one.number < 0 for one in observed)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["middle", "low", "high"])
def test_tuning_halves_the_distance_to_the_best_batch(
    place: str,
) -> None:
    found = row(search(seed, 100, place=place) for seed in range(2000, 2006))

    assert median(found["last"]) <= median(found["first"]) / 2
    # near the lower end nearly every random batch is above the bound: being near the best means being near the bound
    assert fmean(found["failed last"]) < (0.2 if place == "low" else fmean(found["failed first"]))


def test_the_sampler_sees_the_same_trials_as_from_optuna() -> None:
    history = History(proposal_speed.space())
    history.observe(proposal_speed.invented(30))
    history.observe(
        [
            TrialInFlight(60, 5, None, (), 40, None, "no kernel"),
            Finished(60, 0.5),
            TrialInFlight(61, 5, None, (), 48, 5, "too large"),
            ReducedBatch(61, 48, 24),
        ]
    )
    observed = _trials(history)
    batches, kernels = batch_range(history), IntDistribution(3, 7, step=2)
    spaces: list[dict[str, BaseDistribution]] = [
        {"batch_size": batches},
        {"batch_size": batches, "kernel_size": kernels},
    ]
    study = optuna.create_study()

    for both in spaces:
        sampler = _Joint(both, multivariate=True, constant_liar=True, seed=0)
        ours = sampler._get_internal_repr(observed, both, study)
        theirs = TPESampler._get_internal_repr(sampler, observed, both, study)

        assert list(ours) == list(theirs) == list(both)
        assert len(ours["batch_size"]) == len(observed) - ("kernel_size" in both)  # one has no kernel
        for name, values in ours.items():
            assert values.dtype == theirs[name].dtype
            assert np.array_equal(values, theirs[name])
