"""Laws of the module that is built from a graph."""

import copy
import pickle
import traceback
from itertools import product
from random import Random

import pytest
import torch
import torchvision
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from aiperf.train.torch_network import build, initialise, source
from morphism import (
    IMAGE_STARTS,
    Add,
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Graph,
    Input,
    Map,
    Node,
    Op,
    Relu,
    Softmax,
    channels_of,
    cost,
    start,
)
from tests.builders.network import (
    described,
    images_for,
    interpret,
    outputs,
    random_graph,
    random_morphs,
    random_state,
    small_start,
)

RANDOMS = st.randoms(use_true_random=False)


def gradients_of_module(graph: Graph, state: dict[str, Tensor], images: Tensor, training: bool) -> dict[str, Tensor]:
    module = build(graph).to(images.dtype).train(training)
    module.load_state_dict(state)
    torch.manual_seed(0)  # dropout draws from the global generator
    module(images).square().sum().backward()
    return {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}


def gradients_of_interpreter(
    graph: Graph, state: dict[str, Tensor], images: Tensor, training: bool
) -> dict[str, Tensor]:
    names = [name for name, _ in build(graph).named_parameters()]
    state = {name: tensor.clone().requires_grad_(name in names) for name, tensor in state.items()}
    torch.manual_seed(0)
    logits = interpret(graph, state, images, training)[-2]
    return dict(zip(names, torch.autograd.grad(logits.square().sum(), [state[name] for name in names]), strict=True))


def test_the_built_networks_contain_every_operation() -> None:
    graphs = [*(random_graph(Random(seed)) for seed in range(100)), start("llama_tiny")]

    assert {type(node.op) for graph in graphs for node in graph.nodes} == set(Op.__args__)


@settings(deadline=None, max_examples=60)
@given(RANDOMS, st.booleans())
def test_the_module_equals_its_nodes_with_gradients(random: Random, training: bool) -> None:
    graph = random_graph(random, groups=True)
    state = random_state(graph, seed=1)
    images = images_for(graph, batch=3, seed=2)
    before = images.clone()

    gradients = gradients_of_module(graph, state, images, training)

    expected = gradients_of_interpreter(graph, state, images, training)
    assert gradients.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(gradients[name], expected[name], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(outputs(graph, state, images), interpret(graph, state, images, False)[-2])
    assert torch.equal(images, before), "the caller's images were written to"


@settings(deadline=None, max_examples=60)
@given(RANDOMS)
def test_shapes_of_a_graph_are_torchs(random: Random) -> None:
    graph = random_graph(random, groups=True)
    images = images_for(graph, batch=2, seed=0, dtype=torch.float32).to("meta")

    values = interpret(graph, described(graph), images, training=False)

    ours = [
        (shape.channels, shape.height, shape.width) if isinstance(shape, Map) else (channels_of(shape),)
        for shape in graph.shapes
    ]
    assert [tuple(value.shape[1:]) for value in values] == ours


@settings(deadline=None, max_examples=60)
@given(RANDOMS)
def test_counted_parameters_are_the_modules(random: Random) -> None:
    graph = random_graph(random, groups=True)

    assert cost(graph).parameters == sum(parameter.numel() for parameter in build(graph).parameters())


@pytest.mark.parametrize("name", IMAGE_STARTS)
def test_state_dict_keys_are_the_nodes_names_and_their_tensors(name: str) -> None:
    graph = small_start(name)

    keys = list(described(graph))

    holding = [node.name for node in graph.nodes if any(key.startswith(node.name + ".") for key in keys)]
    assert list(dict.fromkeys(key.rpartition(".")[0] for key in keys)) == holding
    assert {key.rpartition(".")[2] for key in keys} == {
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    }


def test_resnet50_v1_5_is_torchvisions_resnet50() -> None:
    graph = start("resnet50_v1_5", image=64)
    theirs = torchvision.models.resnet50().double().eval()
    state = random_state(graph, seed=0)
    # both hold their layers in the order of the forward pass, the shortcut after the block it passes by
    theirs.load_state_dict(dict(zip(theirs.state_dict(), state.values(), strict=True)))
    images = images_for(graph, batch=2, seed=1)

    with torch.no_grad():
        expected = theirs(images)

    torch.testing.assert_close(outputs(graph, state, images), expected, rtol=1e-12, atol=1e-12)


def test_weights_are_not_a_number_until_they_are_given() -> None:
    module = build(small_start("digits_small"))

    assert module(images_for(small_start("digits_small"), 2, 0, torch.float32)).isnan().all()


def chain(*named: tuple[str, Op]) -> Graph:
    return Graph(tuple(Node(name, op, (index - 1,) if index else ()) for index, (name, op) in enumerate(named)))


def test_names_that_are_keywords_are_as_good_as_any() -> None:
    graph = chain(
        ("image", Input(2, 4, 4)),
        ("class.in", Convolution(4, 3, padding=1)),
        ("class.is.not", BatchNormalisation()),
        ("graph", GlobalAveragePooling()),
        ("self", Dense(3)),
        ("v1", Softmax()),
    )
    state = random_state(graph, seed=0)
    images = images_for(graph, batch=2, seed=1)

    expected = interpret(graph, state, images, training=False)[-2]

    torch.testing.assert_close(outputs(graph, state, images), expected)


@pytest.mark.parametrize("name", ["half", "training", "first.forward"])
def test_a_name_that_torch_needs_itself_is_refused(name: str) -> None:
    graph = chain(
        ("image", Input(2, 4, 4)),
        (name, Convolution(4, 1)),
        ("pool", GlobalAveragePooling()),
        ("dense", Dense(3)),
        ("softmax", Softmax()),
    )

    with pytest.raises(ValueError, match=rf"node '{name}': .* has a '\w+' already; rename the node"):
        build(graph)


def test_relu_is_in_place_only_if_its_input_is_not_used_again() -> None:
    graph = Graph(
        (
            Node("image", Input(2, 4, 4)),
            Node("conv", Convolution(2, 1), (0,)),
            Node("alone", Relu(), (1,)),
            Node("shared", Convolution(2, 1), (2,)),
            Node("relu", Relu(), (3,)),
            Node("add", Add(), (4, 3)),
            Node("pool", GlobalAveragePooling(), (5,)),
            Node("dense", Dense(2), (6,)),
            Node("softmax", Softmax(), (7,)),
        )
    )

    lines = source(graph).splitlines()

    assert "    v2 = v1.relu_()" in lines
    assert "    v4 = v3.relu()" in lines
    assert "    v5 = v4 + v3" in lines, "the relu keeps its output, and its input is read by both"


def test_a_traceback_shows_the_line_of_the_node_that_failed() -> None:
    module = build(small_start("digits_small"))

    with pytest.raises(RuntimeError) as failed:
        module(torch.zeros(1, 3, 8, 8))  # digits have one channel

    assert "self._modules['stem']._modules['conv'](v0)" in "".join(traceback.format_exception(failed.value))


@pytest.mark.parametrize("replica", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_module_can_be_copied_and_pickled(replica) -> None:  # type: ignore[no-untyped-def]
    graph = small_start("digits_small")
    module = build(graph).eval()
    initialise(module, seed=3)
    images = images_for(graph, 2, 0, torch.float32)

    copied: nn.Module = replica(module)

    assert torch.equal(copied(images), module(images))
    assert not {tensor.data_ptr() for tensor in copied.parameters()} & {
        tensor.data_ptr() for tensor in module.parameters()
    }


@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0")
def test_torch_compile_has_no_graph_break() -> None:
    steps = random_morphs(small_start("digits_small"), Random(5), length=6)
    _, graph, _ = steps[-1]
    module = build(graph)
    initialise(module, seed=0)
    images = images_for(graph, 4, 0, torch.float32)
    module.train()
    twin = copy.deepcopy(module)

    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    compiled(images).sum().backward()

    twin(images).sum().backward()
    for (name, ours), plain in zip(module.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, plain.grad, msg=name)
    # compile each network separately, so that specialisations of one do not affect the next
    torch._dynamo.reset()


@pytest.mark.parametrize(("name", "training"), list(product(["digits_small", "resnet50_v1_5"], [False, True])))
def test_images_in_channels_last_stay_so_through_the_network(name: str, training: bool) -> None:
    graph = small_start(name)
    module = build(graph)
    initialise(module, seed=0)
    module.to(memory_format=torch.channels_last).train(training)  # type: ignore[call-overload]  # torch's stubs lack it
    formats: list[bool] = []
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d) and layer.kernel_size != (1, 1):
            layer.register_forward_hook(
                lambda _, __, output: formats.append(output.is_contiguous(memory_format=torch.channels_last))
            )

    module(images_for(graph, 2, 0, torch.float32).contiguous(memory_format=torch.channels_last))

    assert formats and all(formats)
