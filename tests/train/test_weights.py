"""Weight plans preserve the function of a network when it grows."""

from functools import cache
from random import Random

import pytest
import torch
from torch import Tensor

from aiperf.train.torch_network import carry_out
from morphism import IMAGE_STARTS, Divide, Fill, Gather, Lineage, Skip, WeightPlan, Widen, rebuild
from tests.builders.network import described, grown_state, images_for, outputs, random_morphs, random_state, small_start


@cache
def trained(name: str) -> dict[str, Tensor]:
    return random_state(small_start(name), seed=7)


def check_that_growth_preserves_the_function(seed: int) -> None:
    random = Random(seed)
    name = IMAGE_STARTS[seed % len(IMAGE_STARTS)]
    graph, state = small_start(name), trained(name)
    images = images_for(graph, batch=2, seed=seed)
    before = outputs(graph, state, images)
    # if the logits were equal for all images, their equality would prove little
    assert (before[0] - before[1]).abs().max() > 1e-3 * before.abs().max()

    steps = random_morphs(graph, random, length=random.randint(1, 12))
    grown = grown_state(steps, state, seed)

    morphs, child = [morph for morph, _, _ in steps], steps[-1][1]
    assert {key: (tensor.shape, tensor.dtype.is_floating_point) for key, tensor in grown.items()} == {
        key: (tensor.shape, tensor.dtype.is_floating_point) for key, tensor in described(child).items()
    }
    after = outputs(child, grown, images)
    difference = ((after - before).abs().max() / before.abs().max()).item()
    assert difference <= 1e-9, f"{name} after {morphs} differs by {difference:.2e}"


@pytest.mark.parametrize("seed", range(40))
def test_growth_preserves_the_function(seed: int) -> None:
    check_that_growth_preserves_the_function(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 1040))
def test_growth_preserves_the_function_on_a_thousand_sequences(seed: int) -> None:
    check_that_growth_preserves_the_function(seed)


@pytest.mark.parametrize("name", IMAGE_STARTS)
def test_all_four_morphs_are_among_those_tried(name: str) -> None:
    kinds = {
        type(morph).__name__ for seed in range(3) for morph, _, _ in random_morphs(small_start(name), Random(seed), 12)
    }

    assert kinds == {"Deepen", "Widen", "Skip", "Kernel"}


@pytest.mark.parametrize("name", IMAGE_STARTS)
def test_a_network_rebuilt_from_its_lineage_has_the_same_tensors(name: str) -> None:
    graph = small_start(name)
    steps = random_morphs(graph, Random(11), length=8)

    rebuilt = rebuild(Lineage(graph, tuple(morph for morph, _, _ in steps)))

    assert rebuilt == steps[-1][1]
    ours, theirs = described(rebuilt), described(steps[-1][1])
    assert [(key, tensor.shape) for key, tensor in ours.items()] == [
        (key, tensor.shape) for key, tensor in theirs.items()
    ]


@pytest.mark.parametrize("name", ["digits_small", "resnet20"])
def test_the_parents_tensors_are_never_written(name: str) -> None:
    parent = random_state(small_start(name), seed=1)
    before = {key: tensor.clone() for key, tensor in parent.items()}

    for seed in range(6):
        grown_state(random_morphs(small_start(name), Random(seed), length=12), parent, seed)

    assert parent.keys() == before.keys()
    assert all(torch.equal(parent[key], before[key]) for key in before)


def test_equal_seeds_give_equal_bytes() -> None:
    steps = random_morphs(small_start("digits_small"), Random(2), length=12)
    assert any(isinstance(morph, Skip) for morph, _, _ in steps), "nothing random in this sequence"
    torch.manual_seed(1)
    once = grown_state(steps, trained("digits_small"), seed=5)
    torch.manual_seed(2)

    again = grown_state(steps, trained("digits_small"), seed=5)
    other = grown_state(steps, trained("digits_small"), seed=6)

    assert all(once[key].numpy().tobytes() == again[key].numpy().tobytes() for key in once)
    assert any(not torch.equal(once[key], other[key]) for key in once)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_parents_precision_is_kept(dtype: torch.dtype) -> None:
    steps = random_morphs(small_start("digits_small"), Random(2), length=12)
    parent = {
        key: tensor.to(dtype) if tensor.is_floating_point() else tensor
        for key, tensor in trained("digits_small").items()
    }

    grown = grown_state(steps, parent, seed=0)

    assert {tensor.dtype for key, tensor in grown.items() if not key.endswith("num_batches_tracked")} == {dtype}
    assert {tensor.dtype for key, tensor in grown.items() if key.endswith("num_batches_tracked")} == {torch.int64}


def test_tensors_that_the_plan_leaves_alone_take_no_new_memory() -> None:
    morph, child, plan = next(
        step
        for seed in range(9)
        for step in random_morphs(small_start("resnet20"), Random(seed), 1)
        if isinstance(step[0], Widen)
    )
    parent = trained("resnet20")
    touched = {instruction.tensor for instruction in plan.instructions}

    grown = carry_out(plan, parent, seed=0)

    assert touched, morph
    assert all(grown[key] is parent[key] for key in described(child) if key in parent and key not in touched)


def test_a_new_normalisation_has_seen_no_batches() -> None:
    plan = WeightPlan((Fill("new.norm.running_mean", (3,), 0.0), Fill("new.norm.running_var", (3,), 1.0)))

    grown = carry_out(plan, {"old.norm.running_mean": torch.ones(2)}, seed=0)

    assert grown["new.norm.num_batches_tracked"].item() == 0
    assert grown["new.norm.num_batches_tracked"].dtype == torch.int64


def test_gather_and_divide_follow_their_axis() -> None:
    weight = torch.arange(6.0).view(2, 3, 1, 1)
    plan = WeightPlan((Gather("conv.weight", 1, (0, 2, 2)), Divide("conv.weight", 1, (1, 2, 2))))

    grown = carry_out(plan, {"conv.weight": weight}, seed=0)

    assert grown["conv.weight"].flatten(1).tolist() == [[0.0, 1.0, 1.0], [3.0, 2.5, 2.5]]
    assert torch.equal(weight, torch.arange(6.0).view(2, 3, 1, 1))
