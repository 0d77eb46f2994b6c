"""Regions compute what the eager network computes, keep as much, and are compiled once for all networks of a process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
import torch
from torch import Tensor, nn

from aiperf.data.opening import open_data
from aiperf.errors import BadConfiguration
from aiperf.journal.events import TrialPrepared
from aiperf.journal.messages import Crashed, TrialDone
from aiperf.train import execution, execution_mode, loop, regions
from aiperf.train.collectives.collective import SingleRank
from aiperf.train.execution import Execution, ModeUnavailable
from aiperf.train.execution_mode import EAGER, REGIONAL, modes_of
from aiperf.train.precision import Precision
from aiperf.train.rank_context import RankContext
from aiperf.train.regions import compilations, regions_of
from aiperf.train.torch_network import Network, build, initialise, placed, source
from aiperf.train.trainer_config import TrainerConf
from morphism import Graph, start
from tests.builders.network import random_morphs
from tests.builders.order import CONF, IMAGES, graph, order, plain_graph

RESNET = start("resnet20", image=8, classes=10)
MOST_KINDS = 12
# torch 2.13's own parts warn of each other
importing_inductor = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(regions, "_COMPILED", {})
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def network_of(architecture: Graph) -> Network:
    network = build(architecture)
    initialise(network, seed=0)
    placed(network, torch.device("cpu"), channels_last=True)
    return network


def in_mode(architecture: Graph, compiler: str = "aot_eager") -> tuple[Network, Execution]:
    network = network_of(architecture)
    return network, Execution(network, REGIONAL, torch.empty(0), Precision("fp32", "cpu"), compiler)


def images_of(architecture: Graph, precision: Precision, batch: int = 8) -> Tensor:
    image = architecture.nodes[0].op
    drawn = torch.randn(batch, image.channels, image.height, image.width, generator=torch.Generator().manual_seed(1))  # type: ignore[union-attr]
    return drawn.to(precision.dtype).contiguous(memory_format=torch.channels_last)


def step(network: nn.Module, images: Tensor, precision: Precision) -> tuple[float, int]:
    """Return the loss of a pass, and the bytes that it keeps for the backward pass."""
    held: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if tensor.dim() == 4:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    network.train()
    with precision.computing(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = nn.functional.cross_entropy(network(images).float(), torch.arange(len(images)) % 3)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item(), sum(held.values())


def gradients(network: nn.Module) -> Tensor:
    return torch.cat([each.grad.reshape(-1) for each in network.parameters() if each.grad is not None])


def lineage(architecture: Graph, count: int) -> list[Graph]:
    return [child for _, child, _ in random_morphs(architecture, Random(5), count)]


@importing_inductor
@pytest.mark.parametrize("precision", [Precision("fp32", "cpu"), Precision("bf16", "cpu")], ids=lambda one: one.name)
def test_regions_equal_the_eager_network_and_keep_no_more(precision: Precision) -> None:
    """Losses, gradients and statistics, within what the precision itself loses."""
    for architecture in lineage(RESNET, 2):
        images = images_of(architecture, precision)
        exact, eager, (regional, _) = network_of(architecture).double(), network_of(architecture), in_mode(architecture)
        step(exact, images.double(), Precision("fp32", "cpu"))

        (wanted, eager_bytes), (found, bytes_kept) = (step(each, images, precision) for each in (eager, regional))

        assert found == pytest.approx(wanted, rel=1e-5 if precision.name == "fp32" else 1e-2)
        of_exact = gradients(exact)
        lost_eagerly, lost = (
            (gradients(each).double() - of_exact).norm() / of_exact.norm() for each in (eager, regional)
        )
        assert lost <= 1.5 * lost_eagerly + 1e-5
        assert bytes_kept <= eager_bytes
        for name, value in eager.state_dict().items():
            close = 1e-5 if precision.name == "fp32" else 5e-2
            torch.testing.assert_close(regional.state_dict()[name], value, rtol=close, atol=close, msg=name)


@importing_inductor
def test_evaluation_and_batches_of_one_value_are_eager() -> None:
    eager, (regional, _) = network_of(RESNET), in_mode(RESNET)
    images = images_of(RESNET, Precision("fp32", "cpu"))

    assert torch.equal(eager.eval()(images), regional.eval()(images))
    assert torch.equal(eager(images), regional.forward(images))
    assert not compilations()
    one_value = torch.zeros(1, 1, 2, 2).contiguous(memory_format=torch.channels_last)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        in_mode(start("digits_small", image=2, classes=3))[0].train()(one_value)


def test_values_are_deleted_after_their_last_use() -> None:
    for architecture in [graph(), RESNET, *lineage(RESNET, 6)]:
        last, alive = "", {"v0"}
        for line in source(architecture, regions_of(architecture)).splitlines()[1:]:
            words = set(line.replace("(", " ").replace(")", " ").replace(",", " ").replace("._", " ._").split())
            if line.strip().startswith("del"):
                alive -= words
            else:
                assert {
                    word for word in words if word[0] == "v" and word[1:].isdigit() and f"{word} =" not in line
                } <= alive
                last = line.split()[0]
                alive.add(last)
        assert len(alive) <= 3, alive


@importing_inductor
@pytest.mark.parametrize("compiler", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_children_need_at_most_two_new_regions(compiler: str) -> None:
    """Sizes and channels are no constants of the compiled code."""
    precision, compiled = Precision("fp32", "cpu"), []
    for number, architecture in enumerate([RESNET, *lineage(RESNET, 24)]):
        network, used = in_mode(architecture, compiler)
        step(network, images_of(architecture, precision, batch=8 + 8 * (number % 3)), precision)
        used.verify()
        compiled.append(compilations())

    assert compiled[-1] <= MOST_KINDS
    assert all(after - before <= 2 for before, after in pairwise(compiled[1:])), compiled


@importing_inductor
def test_regions_outlive_a_compiled_network() -> None:
    network, used = in_mode(RESNET)
    step(network, images_of(RESNET, Precision("fp32", "cpu")), Precision("fp32", "cpu"))
    before = compilations()

    used.close()
    execution._forget_compiled()

    assert compilations() == before > 0


@importing_inductor
def test_a_trial_by_regions_says_so_and_ends_as_an_eager_one() -> None:
    ended = []
    for compile in ("off", "regions"):
        with open_data(IMAGES) as images:
            conf = replace(CONF, compile=compile)
            context = RankContext.make(conf, images, graph(), torch.device("cpu"), SingleRank(), None)
            words = list(loop.train(order(), replace(context, compiler="aot_eager"), taken=0.0))
        assert isinstance(words[0], TrialPrepared) and words[0].regions == (compile == "regions")
        assert isinstance(words[-1], TrialDone) and not words[0].compiled
        ended.append([word.training_loss for word in words if hasattr(word, "training_loss")])
    assert ended[0] == pytest.approx(ended[1], rel=1e-3)


@importing_inductor
def test_regions_that_were_not_compiled_are_no_regions() -> None:
    with torch._dynamo.config.patch(disable=True), open_data(IMAGES) as images:
        conf = replace(CONF, compile="regions")
        context = RankContext.make(conf, images, graph(), torch.device("cpu"), SingleRank(), None)
        words = list(loop.train(order(), replace(context, compiler="aot_eager"), taken=0.0))
    assert isinstance(words[-1], Crashed) and "found no compiled frames" in words[-1].reason
    _, without = in_mode(plain_graph())
    with pytest.raises(ModeUnavailable, match="no batch normalisation before a ReLU"):
        without.verify()


def test_auto_takes_regions_where_they_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "NVIDIA H100 80GB HBM3"
    assert REGIONAL not in modes_of(TrainerConf(), name)
    monkeypatch.setattr(execution_mode, "FASTER_BY_REGIONS", frozenset({name}))

    assert modes_of(TrainerConf(), name)[:2] == (EAGER, REGIONAL)
    assert modes_of(TrainerConf(), "") == (EAGER,)
    assert REGIONAL not in modes_of(TrainerConf(channels_last=False), name)
    assert modes_of(TrainerConf(compile="regions"), "") == (REGIONAL,)


@pytest.mark.parametrize("other", [{"channels_last": False}, {"cuda_graphs": "on"}], ids=str)
def test_regions_exclude_other_layouts_and_graphs(other: dict[str, object]) -> None:
    with pytest.raises(BadConfiguration, match=r"trainer\.compile='regions' cannot be combined with trainer"):
        TrainerConf(compile="regions", **other)  # type: ignore[arg-type]
