"""The tensor-only operation count against torch's own counter, and the errors of that counter."""

import subprocess
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.train.counted_step import counted_by_torch
from morphism import (
    IMAGE_STARTS,
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Graph,
    Input,
    Node,
    Softmax,
    cost,
    encode,
    start,
)
from tests.builders.network import random_graph, random_morphs, small_start


def our_count(graph: Graph, batch: int) -> tuple[int, int]:
    counted = cost(graph)
    return counted.tensor_forward_flops * batch, counted.tensor_backward_flops * batch


def test_a_step_runs_alone_for_the_counters_of_a_processor() -> None:
    words = [sys.executable, "-m", "aiperf.train.counted_step", "2", "1"]

    done = subprocess.run(words, input=encode(small_start("digits_small")), text=True, capture_output=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@settings(deadline=None, max_examples=100)
@given(st.randoms(use_true_random=False), st.integers(2, 4))
def test_the_tensor_only_count_of_any_graph_equals_that_of_torch(random: Random, batch: int) -> None:
    graph = random_graph(random)

    assert our_count(graph, batch) == counted_by_torch(graph, batch)


@pytest.mark.parametrize(
    "seed",
    [
        *range(2 * len(IMAGE_STARTS)),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2 * len(IMAGE_STARTS), 30)),
    ],
)
def test_the_tensor_only_count_equals_the_count_of_torch(seed: int) -> None:
    steps = random_morphs(start(IMAGE_STARTS[seed % len(IMAGE_STARTS)]), Random(seed), length=12)

    for _, graph, _ in steps[::4]:
        assert our_count(graph, 2) == counted_by_torch(graph, 2)


def test_what_torch_asks_for_is_what_it_runs() -> None:
    graph = random_morphs(small_start("digits_small"), Random(1), length=8)[-1][1]

    assert our_count(graph, 3) == counted_by_torch(graph, 3, "meta") == counted_by_torch(graph, 3, "cpu")


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

    ours, torchs = our_count(graph, 1), counted_by_torch(graph, 1)

    assert ours[0] == torchs[0]
    assert torchs[1] - ours[1] == (groups - 1) * one_pass
