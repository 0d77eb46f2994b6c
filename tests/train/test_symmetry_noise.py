"""Laws of breaking the symmetry of copied channels."""

from math import sqrt
from random import Random

import pytest
import torch
from torch import Tensor

from aiperf.train.torch_network import break_symmetry, build, carry_out
from morphism import Budget, Deepen, Gather, Graph, WeightPlan, Widen, apply, legal
from tests.builders.network import images_for, outputs, random_state, small_start


def widened(seed: int, dtype: torch.dtype = torch.float64) -> tuple[Graph, WeightPlan, dict[str, Tensor]]:
    parent = small_start("digits_small")
    morph = Random(seed).choice([morph for morph in legal(parent, Budget.of(parent)) if isinstance(morph, Widen)])
    child, plan = apply(parent, morph)
    return child, plan, carry_out(plan, random_state(parent, seed, dtype), seed)


def copies(instruction: Gather) -> list[int]:
    return [j for j, source in enumerate(instruction.index) if source in instruction.index[:j]]


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_on_copies_and_relative_to_the_tensors_rms(seed: int) -> None:
    _, plan, state = widened(seed)
    copied = {i.tensor: i for i in plan.instructions if isinstance(i, Gather) and state[i.tensor].dim() > 1}
    assert copied

    noisy = break_symmetry(state, plan, seed)

    for name, tensor in state.items():
        if name not in copied:
            assert noisy[name] is tensor
            continue
        axis, where = copied[name].axis, torch.tensor(copies(copied[name]))
        noise = noisy[name] - tensor
        on_copies = noise.index_select(axis, where)
        assert noise.count_nonzero() == on_copies.count_nonzero() == on_copies.numel()
        relative = on_copies.square().mean().sqrt() / tensor.square().mean().sqrt()
        assert relative.item() == pytest.approx(1e-3, rel=6 / sqrt(2 * on_copies.numel()))


@pytest.mark.parametrize("seed", range(5))
def test_noise_gives_copies_different_gradients(seed: int) -> None:
    child, plan, state = widened(seed)
    gather = next(i for i in plan.instructions if isinstance(i, Gather) and i.axis == 0 and state[i.tensor].dim() == 4)
    copy = copies(gather)[0]
    original = gather.index.index(gather.index[copy])

    def gradient(weights: dict[str, Tensor]) -> Tensor:
        module = build(child).double().train()
        module.load_state_dict(weights)
        torch.autograd.backward(module(images_for(child, 4, seed)).square().sum())
        gradient = module.get_parameter(gather.tensor).grad
        assert gradient is not None
        return gradient

    before, after = gradient(state), gradient(break_symmetry(state, plan, seed))

    # copies may be divided unevenly (3 and 2 copies), so compare directions, not sizes
    assert angle(before[original], before[copy]) < 1e-6
    assert angle(after[original], after[copy]) > 1e-6


def angle(a: Tensor, b: Tensor) -> float:
    unit = [tensor.flatten() / tensor.norm() for tensor in (a, b)]
    return float((unit[0] - unit[1]).norm())


def test_noise_changes_the_function_only_slightly() -> None:
    child, plan, state = widened(0)
    images = images_for(child, 8, 0)

    before, after = outputs(child, state, images), outputs(child, break_symmetry(state, plan, 0), images)

    assert 0 < (after - before).norm() / before.norm() < 1e-2


def test_equal_seeds_give_equal_noise_and_keep_the_input() -> None:
    _, plan, state = widened(1)
    before = {name: tensor.clone() for name, tensor in state.items()}
    torch.manual_seed(1)
    once = break_symmetry(state, plan, seed=3)
    torch.manual_seed(2)

    again, other = break_symmetry(state, plan, seed=3), break_symmetry(state, plan, seed=4)

    assert all(once[name].numpy().tobytes() == again[name].numpy().tobytes() for name in once)
    assert any(not torch.equal(once[name], other[name]) for name in once)
    assert all(torch.equal(state[name], before[name]) for name in before)


def test_a_plan_that_copies_no_channel_adds_no_noise() -> None:
    parent = small_start("digits_small")
    state = random_state(parent, 0)
    _, plan = apply(parent, next(morph for morph in legal(parent, Budget.of(parent)) if isinstance(morph, Deepen)))
    grown = carry_out(plan, state, 0)

    noisy = break_symmetry(grown, plan, 0)

    assert all(noisy[name] is grown[name] for name in grown)
