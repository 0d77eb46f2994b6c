"""The tensor-only operation count against torch's own counter, and the errors of that counter."""

from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from aiperf.train.torch_network import build, initialise
from morphism import (
    STARTS,
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Graph,
    Input,
    Node,
    Softmax,
    cost,
    start,
)
from tests.builders.network import images_for, random_graph, random_morphs, small_start


def torchs_count(graph: Graph, batch: int, device: str = "meta") -> tuple[int, int]:
    """Return the forward and backward operations of one step, as torch counts the operations that it executes.

    The images need no gradient, as in training. On the meta device nothing is computed, but all operations are counted.
    """
    with torch.device(device):
        module = build(graph).train()
    if device != "meta":
        initialise(module, seed=0)
    images = images_for(graph, batch, seed=0, dtype=torch.float32).to(device)
    with FlopCounterMode(display=False) as forward:
        loss = module(images).sum()
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()


def our_count(graph: Graph, batch: int) -> tuple[int, int]:
    counted = cost(graph)
    return counted.tensor_forward_flops * batch, counted.tensor_backward_flops * batch


@settings(deadline=None, max_examples=100)
@given(st.randoms(use_true_random=False), st.integers(2, 4))
def test_the_tensor_only_count_of_any_graph_equals_that_of_torch(random: Random, batch: int) -> None:
    graph = random_graph(random)

    assert our_count(graph, batch) == torchs_count(graph, batch)


@pytest.mark.parametrize(
    "seed",
    [*range(2 * len(STARTS)), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2 * len(STARTS), 30))],
)
def test_the_tensor_only_count_equals_the_count_of_torch(seed: int) -> None:
    steps = random_morphs(start(STARTS[seed % len(STARTS)]), Random(seed), length=12)

    for _, graph, _ in steps[::4]:
        assert our_count(graph, 2) == torchs_count(graph, 2)


def test_what_torch_asks_for_is_what_it_runs() -> None:
    graph = random_morphs(small_start("digits_small"), Random(1), length=8)[-1][1]

    assert our_count(graph, 3) == torchs_count(graph, 3, "meta") == torchs_count(graph, 3, "cpu")


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_torch_multiplies_the_weight_gradient_by_the_groups(groups: int) -> None:
    """The formula of torch counts the weight gradient of a grouped convolution too high.

    It takes C_in · C_out products, though within each group only C_in / groups meet C_out / groups: C_in · C_out /
    groups in all. The forward pass and the input gradient take their channels from the weight's shape, and are right.
    """
    graph = Graph(
        (
            Node("image", Input(3, 9, 9)),
            Node("stem", Convolution(8, 3, padding=1), (0,)),
            Node("norm", BatchNormalisation(), (1,)),
            Node("grouped", Convolution(12, 3, padding=1, groups=groups), (2,)),
            Node("pool", GlobalAveragePooling(), (3,)),
            Node("dense", Dense(5), (4,)),
            Node("softmax", Softmax(), (5,)),
        )
    )
    one_pass = 2 * 3 * 3 * (8 // groups) * 12 * 9 * 9

    ours, torchs = our_count(graph, 1), torchs_count(graph, 1)

    assert ours[0] == torchs[0]
    assert torchs[1] - ours[1] == (groups - 1) * one_pass
