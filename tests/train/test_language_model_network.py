"""Language models as torch modules: their function, initial weights and counted operations."""

from math import sqrt
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.train.counted_step import counted_by_torch
from aiperf.train.torch_network import build, carry_out, initialise
from morphism import TOKEN_STARTS, Deepen, Graph, Heads, Morph, Widen, apply, cost, legal, start
from tests.builders.graph import NO_LIMIT, token_graphs
from tests.builders.network import State, described, images_for, outputs, random_morphs, random_state
from tests.builders.reference_network import logits, tensor_shapes, trained_weights


@given(token_graphs(least_blocks=0), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_the_module_computes_what_the_graph_says(graph: Graph, seed: int) -> None:
    weights, numbers = trained_weights(graph, seed), images_for(graph, 2, seed)
    state = {name: torch.from_numpy(np.asarray(weight)) for name, weight in weights.items()}

    found = outputs(graph, state, numbers)

    assert {name: tuple(tensor.shape) for name, tensor in described(graph).items()} == tensor_shapes(graph)
    # the angles of the module are in FP32
    np.testing.assert_allclose(found, logits(graph, weights, numbers.double().numpy()), rtol=1e-5, atol=1e-5)


def test_a_token_does_not_see_the_tokens_after_it() -> None:
    module = build(start("llama_tiny", image=16))
    initialise(module, 0)
    numbers = torch.arange(16)[None]
    other = numbers.clone()
    other[0, 9] = 200

    changed = (module(numbers) != module(other)).any(-1)[0]

    assert changed.tolist() == [False] * 9 + [True] * 7


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_language_model_learns_a_sequence(precision: torch.dtype) -> None:
    module = build(start("llama_tiny", image=32))
    initialise(module, 0)
    numbers = torch.randint(256, (4, 33), generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.AdamW(module.parameters(), lr=3e-3)
    losses = []
    for _ in range(12):
        with torch.autocast("cpu", dtype=precision, enabled=precision is not torch.float32):
            found = module(numbers[:, :-1])
        loss = torch.nn.functional.cross_entropy(found.float().flatten(0, 1), numbers[:, 1:].flatten())
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        losses.append(loss.item())

    assert losses[0] == pytest.approx(np.log(256), abs=0.1)
    assert losses[-1] < 3.0


def test_projections_begin_smaller_than_other_weights() -> None:
    module = build(start("llama_tiny"))
    initialise(module, 0)

    deviations = {name: tensor.std().item() for name, tensor in module.named_parameters() if tensor.dim() == 2}

    for name, deviation in deviations.items():
        is_projection = name.endswith(("output.weight", "down.weight"))
        assert deviation == pytest.approx(0.02 / sqrt(8) if is_projection else 0.02, rel=0.02), name
    assert all((tensor == 1).all() for tensor in module.parameters() if tensor.dim() == 1)


@pytest.mark.parametrize("name", TOKEN_STARTS)
def test_the_tensor_count_of_language_models_is_torchs(name: str) -> None:
    graph = start(name)

    counted = cost(graph)

    assert counted_by_torch(graph, 2) == (2 * counted.tensor_forward_flops, 2 * counted.tensor_backward_flops)


def test_a_processor_executes_the_counted_products() -> None:
    graph = start("llama_tiny", image=24)

    assert counted_by_torch(graph, 2, "cpu") == counted_by_torch(graph, 2, "meta")


def test_the_score_counts_the_pairs_that_a_causal_kernel_computes() -> None:
    graph = start("llama_tiny")
    length, blocks, width = 128, 4, 128
    skipped = length * length - length * (length + 1) // 2

    counted = cost(graph).by_kind["attention"]

    products = counted.tensor_forward_flops - blocks * 4 * skipped * width
    pairs = blocks * 4 * (length * (length + 1) // 2)
    assert counted.forward_flops == products + 14 * pairs + blocks * 6 * length * width
    assert counted.backward_flops == 2 * products + 2 * counted.parameters


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))])
def test_the_tensor_count_of_grown_language_models_is_torchs(seed: int) -> None:
    # 30 chains of 10 growths
    steps = random_morphs(start("llama_tiny", image=8, classes=16), Random(seed), length=10)

    for _, graph, _ in steps:
        counted = cost(graph)
        assert counted_by_torch(graph, 2, "cpu") == (
            2 * counted.tensor_forward_flops,
            2 * counted.tensor_backward_flops,
        )


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_morphs_preserve_every_bit_of_a_language_model(precision: torch.dtype) -> None:
    graph = start("llama_tiny", image=32)
    state = random_state(graph, 0, torch.float32)
    numbers = images_for(graph, 4, 1)

    def function(of: Graph, weights: State) -> torch.Tensor:
        with torch.autocast("cpu", dtype=precision, enabled=precision is not torch.float32):
            return outputs(of, weights, numbers)

    before = function(graph, state)
    for number, morph in enumerate(legal(graph, NO_LIMIT)[::3]):
        grown, plan = apply(graph, morph)
        after = function(grown, carry_out(plan, state, number))
        if isinstance(morph, Widen):
            # more columns of the projection: the order of the sum may change
            tolerance = 1e-5 if precision is torch.float32 else 2e-2
            torch.testing.assert_close(after, before, rtol=0, atol=tolerance * before.abs().max().item())
        else:
            assert torch.equal(after, before), morph


def test_gradients_reach_every_new_weight_within_two_steps() -> None:
    graph = start("llama_tiny", image=16)
    state = random_state(graph, 0, torch.float32)
    morphs: tuple[Morph, ...] = (Deepen("block2.add2"), Heads("block1.attention", 6), Widen("block3.mlp", 432))
    for number, morph in enumerate(morphs):
        graph, plan = apply(graph, morph)
        state = carry_out(plan, state, number)
    module = build(graph)
    module.load_state_dict(state)
    optimiser = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=0.0)
    numbers = images_for(graph, 4, 1)
    before = {name: tensor.clone() for name, tensor in state.items()}
    for _ in range(2):
        optimiser.zero_grad()
        torch.autograd.backward(module(numbers).float().square().mean())
        optimiser.step()

    parameters = dict(module.named_parameters())

    for name, tensor in parameters.items():
        if name.startswith("deepen1."):
            assert (tensor != before[name]).any(), name
    # rows inwards and columns outwards, which the parent does not have
    for name, first, is_projection in (
        ("block1.attention.query", 128, False),
        ("block1.attention.value", 128, False),
        ("block1.attention.output", 128, True),
        ("block3.mlp.gate", 344, False),
        ("block3.mlp.up", 344, False),
        ("block3.mlp.down", 344, True),
    ):
        moved = parameters[f"{name}.weight"] != before[f"{name}.weight"]
        new = moved[:, first:].any(0) if is_projection else moved[first:].any(1)
        assert new.all(), name
