"""Laws of tuning: TPE over the run's history, kernels that really change the network, points that are no longer allowed."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from morphism import Budget, Convolution, Deepen, Graph, Kernel, Lineage, apply, cost, legal, rebuild, start
from searchers import (
    CeilingKnown,
    EvolutionConf,
    Finished,
    History,
    OffConf,
    Proposed,
    RandomConf,
    Request,
    Shrunk,
    Space,
    TpeConf,
    propose,
)
from searchers.kernel_size import enlarging, smallest, tunable
from searchers.tpe import batch_range
from tests.searchers.histories import SMALL, Run, space

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
def test_a_kernel_size_is_morphs_on_every_smaller_kernel_from_3_on_but_the_images(
    name: str, size: int, grown: int
) -> None:
    graph = start(name)
    for number in range(grown):
        possible = legal(graph, Budget.of(graph, 10))
        graph, _ = apply(graph, possible[(number * 7919) % len(possible)])
    larger = graph
    for morph in enlarging(graph, size):
        larger, _ = apply(larger, morph)

    assert enlarged(graph, size) == larger
    for node, before, reads_image in zip(larger.nodes, graph.nodes, graph.reads_image, strict=True):
        if isinstance(node.op, Convolution) and isinstance(before.op, Convolution):
            grows = before.op.kernel >= 3 and not reads_image
            assert node.op.kernel == (max(before.op.kernel, size) if grows else before.op.kernel)


def test_the_stem_is_not_tuned_and_the_parents_size_is_its_smallest() -> None:
    graph = start("resnet50_v1")
    assert "stem.conv" not in {graph.nodes[index].name for index in tunable(graph)}
    assert smallest(graph) == 3
    assert smallest(enlarged(graph, 5)) == 5
    one, _ = apply(graph, Kernel("stage1.block1.conv2", 7))
    assert smallest(one) == 3


def run_of(results: int, at: Space) -> Run:
    run = Run(RANDOM, TPE, at)
    for number in range(results):
        trial = run.ask(4)
        # larger kernels and batches of 64 are the better ones
        accuracy = 0.4 + 0.05 * (trial.kernel_size or 3) - abs(trial.batch_size - 64) / 500
        run.tell(Finished(number, accuracy))
    return run


def test_rounds_before_tuning_take_the_default_and_leave_the_kernels() -> None:
    run = Run(RANDOM, TPE, space(tuning_from_round=4))

    early = [run.ask(round) for round in (1, 2, 3)]

    assert {(trial.batch_size, trial.kernel_size) for trial in early} == {(64, None)}


def test_a_measured_ceiling_holds_for_the_default_too() -> None:
    run = Run(RANDOM, TPE, space())
    run.tell(CeilingKnown(48))

    assert run.ask(1).batch_size == 48
    assert run.ask(4).batch_size <= 48


def test_without_tuning_every_round_takes_the_default() -> None:
    OffConf().build()  # makes no tuner
    run = Run(RANDOM, None, space())

    trial = run.ask(9)

    assert (trial.batch_size, trial.kernel_size) == (64, None)


def test_from_the_round_on_points_are_on_the_grid_and_the_network_has_the_kernel() -> None:
    run = run_of(30, space(budget=LARGE))

    first, *others = run.history.trials.values()
    assert (first.kernel_size, first.fingerprint) == (None, SMALL.fingerprint)
    for trial in others:
        assert trial.batch_size in range(8, 129, 8)
        assert trial.kernel_size in (3, 5, 7)
        graph = run.history.graph(trial.number)
        assert min(op.kernel for op in tunable(graph).values()) >= trial.kernel_size
    assert {trial.kernel_size for trial in others} == {3, 5, 7}


def test_the_starting_network_that_is_asked_for_late_is_itself_and_not_a_tuned_one() -> None:
    run = run_of(30, space(budget=LARGE))

    proposal = propose(EVOLUTION, run.history, Request(30, 9, 0, starting_network=True), TPE)

    assert (proposal.parent, proposal.morphs, proposal.kernel_size) == (None, (), None)


def test_a_childs_kernels_begin_at_its_parents_size() -> None:
    history = History(space(budget=LARGE))
    morphs = enlarging(SMALL, 5)
    history.tell([Proposed(0, 4, None, morphs, 64, 5, enlarged(SMALL, 5).fingerprint), Finished(0, 0.9)])

    for number in range(1, 15):
        proposal = propose(EVOLUTION, history, Request(number, 4, 0), TPE)
        assert proposal.parent == 0
        assert proposal.kernel_size in (5, 7)


def test_tuning_learns_which_points_are_good() -> None:
    run = run_of(120, space(budget=LARGE))

    late = list(run.history.trials.values())[80:]

    assert sum(trial.kernel_size == 7 for trial in late) > len(late) / 2
    assert sum(abs(trial.batch_size - 64) <= 24 for trial in late) > len(late) / 2


def test_a_kernel_over_the_budget_is_a_pruned_point_that_names_the_limit() -> None:
    tight = Budget(int(1.5 * cost(SMALL).forward_flops), None, None)
    history = History(space(budget=tight))

    proposals = [propose(RANDOM, history, Request(number, 4, 0), TPE) for number in range(1, 20)]

    pruned = [point for proposal in proposals for point in proposal.pruned]
    assert pruned
    assert all(point.kernel_size in (5, 7) for point in pruned)
    assert all(
        point.reason.startswith("over the budget: ") and "forward operations" in point.reason for point in pruned
    )
    assert all(len(proposal.pruned) <= 5 for proposal in proposals)


@pytest.mark.parametrize("factor", [1.5, 2.5, 4.0])
def test_the_largest_kernel_within_the_budget_stands_in_for_one_beyond_it(factor: float) -> None:
    tight = Budget(int(factor * cost(SMALL).forward_flops), None, None)
    history = History(space(budget=tight))

    proposals = [propose(RANDOM, history, Request(number, 4, 0), TPE) for number in range(1, 40)]
    replaced = [proposal for proposal in proposals if proposal.pruned]

    assert replaced
    for proposal in replaced:
        (point,) = proposal.pruned
        assert proposal.kernel_size is not None and point.kernel_size is not None
        assert proposal.kernel_size < point.kernel_size and proposal.batch_size == point.batch_size
        graph = history.grown(proposal.parent, proposal.morphs)
        assert tight.allows(cost(graph))
        assert not tight.allows(cost(enlarged(graph, proposal.kernel_size + 2)))


def test_where_not_even_the_parents_kernel_is_within_the_budget_kernels_stay_as_they_are() -> None:
    """The parent's smallest kernel is 5, a child's added convolution has 3, and there is no room for 5 in it."""
    parent = enlarged(SMALL, 5)
    child, _ = apply(parent, Deepen("stem.relu"))
    history = History(space(parent, Budget(cost(child).forward_flops, None, None)))

    tuned = TPE.tune(history, Request(1, 4, 0), parent, child)

    assert (tuned.morphs, tuned.kernel_size, len(tuned.pruned)) == ((), None, 1)
    assert {point.reason.partition(":")[0] for point in tuned.pruned} == {"over the budget"}


@pytest.mark.parametrize("seed", range(3))
def test_points_out_of_memory_are_avoided_afterwards(seed: int) -> None:
    """No batch above 64 ever fits: tuning turns away from them although no ceiling says so, and results say nothing."""

    def large(fits: int) -> int:
        run = Run(RANDOM, TPE, space(budget=LARGE), seed)
        for number in range(60):
            trial = run.ask(4)
            if trial.batch_size > fits:
                run.tell(Shrunk(number, trial.batch_size, 56))
            run.tell(Finished(number, (number * 37 % 17) / 17))
        return sum(trial.batch_size > 64 for trial in list(run.history.trials.values())[20:])

    assert large(fits=64) < large(fits=128)


@pytest.mark.parametrize(
    ("ceiling", "low", "high"), [(None, 8, 128), (100, 8, 96), (8, 8, 8), (5, 5, 5), (10_000, 8, 128)]
)
def test_batches_go_from_the_smallest_to_the_ceiling_or_the_largest_in_steps_of_8(
    ceiling: int | None, low: int, high: int
) -> None:
    history = History(space())
    if ceiling is not None:
        history.tell([CeilingKnown(ceiling)])

    batches = batch_range(history)

    assert (batches.low, batches.high, batches.step) == (low, high, 8)


def test_where_the_parents_kernels_are_the_largest_the_batch_is_tuned_alone() -> None:
    graph = enlarged(SMALL, 7)
    history = History(space(graph, Budget.of(graph, 50)))

    # 7 is the parent's size already: one size is left
    assert propose(RANDOM, history, Request(1, 4, 0), TPE).kernel_size == 7


def test_optuna_is_not_imported_before_tuning_is_asked_for_and_says_nothing() -> None:
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
