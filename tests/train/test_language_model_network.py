"""Language models as torch modules: their function, initial weights and counted operations."""

from math import sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.train.counted_step import counted_by_torch
from aiperf.train.torch_network import build, initialise
from morphism import TOKEN_STARTS, Graph, cost, start
from tests.builders.graph import token_graphs
from tests.builders.network import described, images_for, outputs
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
