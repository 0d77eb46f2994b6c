"""A network whose normalisations are fused computes what it computes: what is joined, and in which order things are read.

The operations are torch's own here, behind the interface of the fused ones; the kernels have tests of their own
(`test_fused_kernels.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn

from aiperf.errors import BadConfiguration
from aiperf.train.execution_mode import EAGER, GUESSES, ExecutionMode, modes
from aiperf.train.fused import Fusion
from aiperf.train.fused.line import fused_line, joined, source
from aiperf.train.initialise import initialise
from aiperf.train.module import Network, build
from aiperf.train.trainer_config import TrainerConf
from morphism import Graph, start
from tests.morphism.strategies import graphs
from tests.train.networks import images_for as double_images

FUSIONS: tuple[Fusion, ...] = ("norm", "conv")


def images_for(graph: Graph, batch: int) -> Tensor:
    return double_images(graph, batch, seed=2, dtype=torch.float32)


class Seen:
    """Operations with the interface of `fused/norm.py`, by torch, and what they were asked."""

    def __init__(self) -> None:
        self.norms = self.statistics = 0

    def norm(self, x: Tensor, layer: nn.BatchNorm2d, residual: Tensor | None, relu: bool, statistics: object) -> Tensor:
        self.norms += 1
        assert statistics is None or statistics is x, "the statistics of another tensor"
        self.statistics += statistics is not None
        y: Tensor = layer(x)
        y = y if residual is None else y + residual
        return y.relu() if relu else y

    def pointwise(self, x: Tensor, layer: nn.Conv2d) -> tuple[Tensor, object]:
        z: Tensor = layer(x)
        return z, z


def pass_of(network: Network, forward: Callable[[Tensor], Tensor], images: Tensor) -> dict[str, Tensor]:
    """What one step leaves: logits, gradients, running statistics."""
    torch.manual_seed(5)  # dropout's
    network.zero_grad()
    logits = forward(images)
    logits.square().mean().backward()  # type: ignore[no-untyped-call]
    gradients = {name: parameter.grad for name, parameter in network.named_parameters() if parameter.grad is not None}
    return {"logits": logits.detach(), **gradients, **{f"buffer {n}": b.clone() for n, b in network.named_buffers()}}


def assert_equal_passes(graph: Graph, fusion: Fusion) -> Seen:
    plain, fused, seen = build(graph), build(graph), Seen()
    initialise(plain, seed=1)
    fused.load_state_dict(plain.state_dict())
    line = fused_line(graph, fusion, seen.norm, seen.pointwise)
    images = images_for(graph, 4)

    wanted = pass_of(plain.train(), plain, images)
    found = pass_of(fused.train(), lambda each: line(fused, each), images)

    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert torch.allclose(found[name], value, rtol=1e-4, atol=1e-5), name
    return seen


@settings(deadline=None, max_examples=12)
@given(graphs())
def test_any_network_does_the_same_step_fused(graph: Graph) -> None:
    for fusion in FUSIONS:
        seen = assert_equal_passes(graph, fusion)
        assert seen.norms == len(joined(graph, fusion))


@pytest.mark.parametrize("fusion", FUSIONS)
def test_resnet20_does_the_same_step_fused(fusion: Fusion) -> None:
    assert_equal_passes(start("resnet20", image=32, classes=10), fusion)


def test_in_resnet50_nothing_is_left_beside_the_normalisations_but_convolutions_and_pooling() -> None:
    graph = start("resnet50_v1_5")

    text = source(graph, "conv")

    assert ".relu" not in text and ".add_" not in text and " + " not in text
    parts = joined(graph, "conv")
    assert len(parts) == 53
    assert sum(part.residual is not None for part in parts) == 16
    assert sum(part.relu for part in parts) == 53 - 4  # the projections go into their block's sum
    # all 1×1 convolutions but the three projections with stride 2
    assert sum(part.pointwise for part in parts) == 36 - 3
    assert sum(part.pointwise for part in joined(graph, "norm")) == 0


def test_in_evaluation_the_networks_own_forward_is_called() -> None:
    graph = start("resnet20", image=32, classes=10)
    network, images = build(graph), images_for(graph, 2)
    initialise(network, seed=1)
    network.eval()

    def refuse(*_: Any) -> Any:
        raise AssertionError("fused kernels are for training")

    assert torch.equal(fused_line(graph, "conv", refuse, refuse)(network, images), network(images))


def test_fused_ways_are_open_where_they_are_asked_for_and_never_compiled() -> None:
    everything = modes("auto", "auto", on_cuda=True, fused="auto")

    assert everything[0] == EAGER
    assert len(set(everything)) == len(everything) == 8 == len(GUESSES)
    assert set(everything) == set(GUESSES)
    assert modes("auto", "auto", on_cuda=True, fused="auto", cannot_fuse="no triton") == modes(
        "auto", "auto", on_cuda=True
    )
    assert modes("auto", "off", on_cuda=True, fused="norm") == (ExecutionMode(fused="norm"),)
    assert modes("off", "on", on_cuda=True, fused="conv") == (ExecutionMode(cuda_graphs=True, fused="conv"),)


def test_what_cannot_be_fused_is_refused_with_the_reason_and_never_replaced() -> None:
    with pytest.raises(BadConfiguration, match=r"trainer\.fused='norm' cannot be had: no triton"):
        modes("off", "off", on_cuda=True, fused="norm", cannot_fuse="no triton")
    with pytest.raises(BadConfiguration, match=r"trainer\.compile='on'"):
        modes("on", "off", on_cuda=True, fused="conv")
    with pytest.raises(BadConfiguration, match="channels_last"):
        TrainerConf(fused="norm", channels_last=False)
    with pytest.raises(BadConfiguration, match=r"trainer\.fused is one of"):
        TrainerConf(fused="on")
