"""Parameters that a morph adds are trained: none of their gradients stays zero, and none explodes in the first steps."""

from collections import defaultdict
from functools import cache
from random import Random

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from aiperf.train.torch_network import build, initialise
from morphism import IMAGE_STARTS, Budget, Deepen, Graph, Skip, apply, legal
from tests.builders.network import Step, grown_state, images_for, random_morphs, small_start

BATCH = 8
OPTIMISER_STEPS = 3


@cache
def initial(name: str) -> dict[str, Tensor]:
    module = build(small_start(name))
    initialise(module, seed=0)
    return dict(module.state_dict())


def gradient_sizes(graph: Graph, state: dict[str, Tensor]) -> dict[str, list[float]]:
    """The RMS of every parameter's gradient in each of the first steps of SGD."""
    module = build(graph).train()
    module.load_state_dict(state)
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    images = images_for(graph, BATCH, seed=1, dtype=torch.float32)
    labels = torch.arange(BATCH) % 7
    sizes: dict[str, list[float]] = defaultdict(list)
    for _ in range(OPTIMISER_STEPS):
        optimiser.zero_grad()
        torch.autograd.backward(F.cross_entropy(module(images), labels))
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None
            sizes[name].append(parameter.grad.square().mean().sqrt().item())
        optimiser.step()
    return sizes


@cache
def largest_gradient_before_growth(name: str) -> float:
    return max(max(sizes) for sizes in gradient_sizes(small_start(name), initial(name)).values())


def check_that_what_is_added_learns(name: str, steps: list[Step], seed: int) -> set[str]:
    sizes = gradient_sizes(steps[-1][1], grown_state(steps, initial(name), seed))
    added = sizes.keys() - initial(name).keys()
    bound = 10 * largest_gradient_before_growth(name)
    morphs = [morph for morph, _, _ in steps]
    for parameter in added:
        # a skip's convolution learns from the second step on, when γ has left zero
        assert max(sizes[parameter]) > 0, f"{parameter} receives no gradient: {morphs}"
        assert max(sizes[parameter]) < bound, f"{parameter} explodes, {sizes[parameter]} beyond {bound:.3g}: {morphs}"
    return added


@pytest.mark.parametrize("kind", [Skip, Deepen])
@pytest.mark.parametrize("name", IMAGE_STARTS)
def test_every_parameter_that_a_morph_adds_learns(name: str, kind: type) -> None:
    graph = small_start(name)
    steps: list[Step] = []
    for number in range(3):
        candidates = [morph for morph in legal(graph, Budget.of(small_start(name))) if isinstance(morph, kind)]
        morph = Random(number).choice(candidates)
        graph, plan = apply(graph, morph)
        steps.append((morph, graph, plan))

    added = check_that_what_is_added_learns(name, steps, seed=0)

    assert len(added) == 3 * 3, "each adds a convolution, a scale and a shift"


def check_a_random_sequence(seed: int) -> None:
    random = Random(seed)
    name = IMAGE_STARTS[seed % len(IMAGE_STARTS)]

    check_that_what_is_added_learns(name, random_morphs(small_start(name), random, random.randint(1, 12)), seed)


@pytest.mark.parametrize("seed", range(10))
def test_every_parameter_that_a_sequence_of_morphs_adds_learns(seed: int) -> None:
    check_a_random_sequence(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 1010))
def test_parameters_of_a_thousand_sequences_learn(seed: int) -> None:
    check_a_random_sequence(seed)
