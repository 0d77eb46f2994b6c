"""Networks, weights and threads for tests with torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import count
from random import Random
from typing import assert_never

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from aiperf.train.torch_network import build, carry_out
from morphism import (
    IMAGE_STARTS,
    Add,
    Attention,
    AveragePooling,
    BatchNormalisation,
    Budget,
    Concat,
    Convolution,
    Dense,
    Dropout,
    Embedding,
    GatedMlp,
    GlobalAveragePooling,
    Graph,
    IllegalGraph,
    Input,
    MaxPooling,
    Morph,
    Node,
    Op,
    Relu,
    RmsNorm,
    Softmax,
    TokenInput,
    WeightPlan,
    apply,
    legal,
    start,
)
from morphism.ops import BATCH_NORMALISATION_EPSILON

State = Mapping[str, Tensor]
Step = tuple[Morph, Graph, WeightPlan]
SMALL_IMAGE = {"resnet50_v1": 32, "resnet50_v1_5": 32, "resnet18": 32, "resnet20": 12, "digits_small": 8}


@cache
def small_start(name: str) -> Graph:
    """A starting graph at an image size and a number of classes that compute quickly."""
    assert set(SMALL_IMAGE) == set(IMAGE_STARTS)
    return start(name, image=SMALL_IMAGE[name], classes=7)


def random_state(graph: Graph, seed: int, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """Return weights like those of a trained network: every batch normalisation has its own statistics and scale."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, tensor in described(graph).items():
        kind = name.rpartition(".")[2]
        shape = tuple(tensor.shape)
        if kind == "num_batches_tracked":
            state[name] = torch.tensor(17)
        elif kind in ("bias", "running_mean"):
            state[name] = torch.randn(shape, generator=generator, dtype=dtype) * 0.2
        elif kind == "running_var" or len(shape) == 1:
            state[name] = torch.rand(shape, generator=generator, dtype=dtype) + 0.5
        else:
            fan_in = tensor[0].numel()
            state[name] = torch.randn(shape, generator=generator, dtype=dtype) * (2 / fan_in) ** 0.5
    return state


def described(graph: Graph) -> dict[str, Tensor]:
    """Names, shapes and types of a module's tensors, without their memory."""
    with torch.device("meta"):
        return dict(build(graph).state_dict())


def images_for(graph: Graph, batch: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    image = graph.nodes[0].op
    generator = torch.Generator().manual_seed(seed)
    if isinstance(image, TokenInput):
        return torch.randint(image.vocabulary, (batch, image.length), generator=generator)
    assert isinstance(image, Input)
    return torch.randn((batch, image.channels, image.height, image.width), generator=generator, dtype=dtype)


@torch.no_grad()
def outputs(graph: Graph, state: State, images: Tensor) -> Tensor:
    """The logits in evaluation mode of the module that `build` makes, without a copy of the weights."""
    with torch.device("meta"):
        module = build(graph).eval()
    logits: Tensor = torch.func.functional_call(module, dict(state), (images,), strict=True)
    return logits


def random_morphs(graph: Graph, random: Random, length: int) -> list[Step]:
    """Return up to `length` morphs within the default budget, kinds mixed evenly. Fewer if no more fit."""
    budget = Budget.of(graph)
    steps: list[Step] = []
    for _ in range(length):
        by_kind: dict[type, list[Morph]] = {}
        for morph in legal(graph, budget):
            by_kind.setdefault(type(morph), []).append(morph)
        if not by_kind:
            break
        kind = random.choice(sorted(by_kind, key=lambda kind: kind.__name__))
        morph = random.choice(by_kind[kind])
        graph, plan = apply(graph, morph)
        steps.append((morph, graph, plan))
    return steps


def grown_state(steps: list[Step], state: State, seed: int) -> dict[str, Tensor]:
    """Return the state after all steps."""
    grown = dict(state)
    for number, (_, _, plan) in enumerate(steps):
        grown = carry_out(plan, grown, seed + number)
    return grown


def random_graph(random: Random, groups: bool = False) -> Graph:
    """Return a legal graph of any operations, including joins. Convolutions have groups only if requested."""
    nodes = [Node("image", Input(random.randint(1, 4), *random.choices(range(6, 14), k=2)))]
    names = count()

    def attempt(op: Op, inputs: tuple[int, ...]) -> None:
        """Add the node if it fits. A graph is checked as a whole, so a head is added for the check."""
        grown = [*nodes, Node(f"block{next(names)}.node", op, inputs)]
        try:
            Graph((*grown, *_head(len(grown) - 1)))
        except IllegalGraph:
            return
        nodes[:] = grown

    for _ in range(random.randint(2, 14)):
        last = len(nodes) - 1
        earlier = random.randrange(len(nodes))
        kernel = random.randint(1, 5)
        candidates: list[tuple[Op, tuple[int, ...]]] = [
            (Convolution(random.choice([2, 4, 6, 8]), kernel, random.randint(1, 2), random.randint(0, 2)), (last,)),
            (Convolution(8, kernel, 1, kernel // 2, groups=random.choice([2, 4]) if groups else 1), (last,)),
            (BatchNormalisation(), (last,)),
            (Relu(), (last,)),
            (Add(), (last, earlier)),
            (Add(), (earlier, last)),
            (Concat(), (last, earlier)),
            (MaxPooling(3, random.randint(1, 2), random.randint(0, 1)), (last,)),
            (AveragePooling(3, random.randint(1, 2), random.randint(0, 1)), (last,)),
            (Dropout(0.3), (last,)),
        ]
        attempt(*random.choice(candidates))
    return Graph((*nodes, *_head(len(nodes) - 1)))


def _head(last: int) -> tuple[Node, ...]:
    return (
        Node("head.pool", GlobalAveragePooling(), (last,)),
        Node("head.dense", Dense(5), (last + 1,)),
        Node("head.softmax", Softmax(), (last + 2,)),
    )


def interpret(graph: Graph, state: State, images: Tensor, training: bool) -> list[Tensor]:
    """Return the output of each node, computed one by one and never in place, including the softmax."""
    values: list[Tensor] = []
    for node in graph.nodes:
        entering = [values[index] for index in node.inputs]
        tensors = {kind: state[f"{node.name}.{kind}"] for kind in _KINDS.get(type(node.op), ())}
        match node.op:
            case Input() | TokenInput():
                values.append(images)
            case Embedding() | RmsNorm() | Attention() | GatedMlp():
                raise AssertionError("tests/builders/reference_network.py computes language models")
            case Convolution(stride=stride, padding=padding, groups=groups):
                values.append(F.conv2d(entering[0], tensors["weight"], None, stride, padding, 1, groups))
            case BatchNormalisation():
                mean, variance = tensors["running_mean"].clone(), tensors["running_var"].clone()
                scale, shift = tensors["weight"], tensors["bias"]
                values.append(
                    F.batch_norm(entering[0], mean, variance, scale, shift, training, 0.1, BATCH_NORMALISATION_EPSILON)
                )
            case Relu():
                values.append(F.relu(entering[0]))
            case Add():
                values.append(entering[0] + entering[1])
            case Concat():
                values.append(torch.cat(entering, 1))
            case MaxPooling(kernel, stride, padding):
                values.append(F.max_pool2d(entering[0], kernel, stride, padding))
            case AveragePooling(kernel, stride, padding):
                values.append(F.avg_pool2d(entering[0], kernel, stride, padding, count_include_pad=True))
            case GlobalAveragePooling():
                values.append(F.adaptive_avg_pool2d(entering[0], 1).flatten(1))
            case Dense():
                values.append(F.linear(entering[0], tensors["weight"], tensors["bias"]))
            case Dropout(probability):
                values.append(F.dropout(entering[0], probability, training))
            case Softmax():
                values.append(F.softmax(entering[0], 1))
            case _:
                assert_never(node.op)
    return values


_KINDS: dict[type, tuple[str, ...]] = {
    Convolution: ("weight",),
    BatchNormalisation: ("weight", "bias", "running_mean", "running_var"),
    Dense: ("weight", "bias"),
}


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    """Use one thread in each module that imports this fixture, itself or in its conftest."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
