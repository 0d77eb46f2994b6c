"""Network of a graph as a torch module, its initial weights, and those of a child derived from its parent's.

The forward pass is straight-line Python code: no node is interpreted at run time. All random values are drawn from seeded
generators: a seed gives the same values in any precision and on any device.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import nan, sqrt
from types import MappingProxyType
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from morphism import (
    Divide,
    Enlarge,
    Extend,
    Fill,
    Gather,
    Graph,
    Identity,
    Node,
    RandomTensor,
    TokenNumbers,
    Tokens,
    WeightPlan,
    ZeroTensor,
    channels_of,
    ops,
)


def build(graph: Graph) -> Network:
    """Return a torch module that computes the graph up to its logits, in float32 on torch's default device.

    Images (batch, channels, height, width) become logits (batch, classes), and token numbers (batch, length) become logits
    (batch, length, vocabulary). The softmax belongs to the loss. State-dict keys are
    "<node name>.<weight|bias|running_mean|running_var|query.weight|…>". Weights are NaN until they are set, so that
    an uninitialised network cannot train unnoticed. Raise ValueError for a node name that torch uses itself ('half',
    'training').
    """
    return Network(graph)


def placed(module: nn.Module, device: torch.device, *, channels_last: bool) -> nn.Module:
    """Move the module to the device, in place."""
    module.to(device)
    if channels_last:
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
    return module


def source(graph: Graph, regions: Mapping[int, tuple[int, ...]] = MappingProxyType({})) -> str:
    """Python source of the forward function, with `del` after a value's last use.

    `regions`: nodes that one call of `region` computes, by the last of them (`aiperf/train/regions.py`).
    """
    return "\n".join(("def forward(self, v0):", *(f"    {line}" for line in _lines(graph, regions)), ""))


class Network(nn.Module):
    """Torch module that computes the network of a graph. It can be copied and pickled."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph
        for index, node in enumerate(graph.nodes):
            layer = _layer(graph, index)
            if layer is not None:
                _context(self, node.name.split("."), layer)
        self.straight_line = compiled_source(graph)
        """Function of this network's own that forward calls, with its own code object."""

    def forward(self, images: Tensor) -> Tensor:
        return self.straight_line(self, images)

    def __getstate__(self) -> dict[str, Any]:
        # a generated function cannot be pickled. It is generated again from the graph
        return {key: value for key, value in self.__dict__.items() if key != "straight_line"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.straight_line = compiled_source(self._graph)


class _UnsetConvolution(nn.Conv2d):
    # default initialization would take most of the time of building, and is overwritten
    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, nan)


class _UnsetDense(nn.Linear):
    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, nan)
        if self.bias is not None:
            nn.init.constant_(self.bias, nan)


class _UnsetEmbedding(nn.Embedding):
    def reset_parameters(self) -> None:
        nn.init.constant_(self.weight, nan)


class _Residual(nn.Module):
    """Linear layers of an operation on tokens, without bias, by the names of its tensors."""

    def __init__(self, op: ops.Residual, features: int) -> None:
        super().__init__()
        self.projection = op.PROJECTION
        for name, (leaving, entering) in op.tensors(features).items():
            self.add_module(name, _UnsetDense(entering, leaving, bias=False))

    def _linear(self, name: str, values: Tensor) -> Tensor:
        result: Tensor = self._modules[name](values)  # type: ignore[misc]  # never None
        return result


class Attention(_Residual):
    """Causal self-attention with rotary positions: (batch, length, features) → the same."""

    def __init__(self, op: ops.Attention, features: int) -> None:
        super().__init__(op, features)
        self._heads = op.heads, op.head_features

    def forward(self, tokens: Tensor, angles: Tensor) -> Tensor:
        query, key, value = (
            self._linear(name, tokens).view(*tokens.shape[:2], *self._heads).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        cosine, sine = angles.to(query.dtype)
        mixed = nn.functional.scaled_dot_product_attention(
            _rotated(query, cosine, sine), _rotated(key, cosine, sine), value, is_causal=True
        )
        return self._linear("output", mixed.transpose(1, 2).flatten(2))


def _rotated(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    left, right = heads.chunk(2, -1)
    return torch.cat((left * cosine - right * sine, right * cosine + left * sine), -1)


def rotary_angles(numbers: Tensor, head_features: int) -> Tensor:
    """Return cosine and sine of the angle of each position and pair of features, (2, length, head_features / 2), in FP32.

    `numbers`: a batch of token numbers, for length and device. The angles are computed in each pass, once for all layers: a
    buffer would be averaged over ranks with the running statistics.
    """
    pairs = torch.arange(0, head_features, 2, device=numbers.device, dtype=torch.float32)
    positions = torch.arange(numbers.shape[1], device=numbers.device, dtype=torch.float32)
    angles = positions[:, None] * ops.ROTARY_BASE ** (-pairs / head_features)
    return torch.stack((angles.cos(), angles.sin()))


class GatedMlp(_Residual):
    """down(silu(gate(x)) · up(x)), on each token."""

    def forward(self, tokens: Tensor) -> Tensor:
        gate, up = self._linear("gate", tokens), self._linear("up", tokens)
        return self._linear("down", nn.functional.silu(gate) * up)


def _layer(graph: Graph, index: int) -> nn.Module | None:
    node, shape = graph.nodes[index], graph.shapes[index]
    if isinstance(node.op, ops.Embedding):
        numbers = graph.shapes[node.inputs[0]]
        assert isinstance(numbers, TokenNumbers)
        return _UnsetEmbedding(numbers.vocabulary, node.op.features)
    channels = channels_of(graph.shapes[node.inputs[0]]) if node.inputs else 0
    match node.op:
        case ops.Convolution(out_channels, kernel, stride, padding, groups):
            return _UnsetConvolution(channels, out_channels, kernel, stride, padding, groups=groups, bias=False)
        case ops.BatchNormalisation():
            return nn.BatchNorm2d(
                channels, eps=ops.BATCH_NORMALISATION_EPSILON, momentum=ops.BATCH_NORMALISATION_MOMENTUM
            )
        case ops.Dense(out_features):
            return _UnsetDense(channels, out_features, bias=not isinstance(shape, Tokens))
        case ops.RmsNorm():
            return nn.RMSNorm(channels, eps=ops.RMS_NORM_EPSILON)
        case ops.Attention():
            assert isinstance(shape, Tokens)
            return Attention(node.op, shape.features)
        case ops.GatedMlp():
            return GatedMlp(node.op, channels)
        case (
            ops.Input()
            | ops.TokenInput()
            | ops.Relu()
            | ops.Add()
            | ops.Concat()
            | ops.MaxPooling()
            | ops.AveragePooling()
            | ops.GlobalAveragePooling()
            | ops.Dropout()
            | ops.Softmax()
        ):
            return None
        case _:
            assert_never(node.op)


def _context(parent: nn.Module, path: list[str], layer: nn.Module) -> None:
    for depth, segment in enumerate(path):
        if segment not in parent._modules:
            if hasattr(parent, segment):
                raise ValueError(
                    f"node {'.'.join(path)!r}: a part of a node's name becomes the name of a torch module, and every one of "
                    f"those has a {segment!r} already; rename the node"
                )
            parent.add_module(segment, layer if depth == len(path) - 1 else nn.Module())
        parent = parent.get_submodule(segment)


def _lines(graph: Graph, regions: Mapping[int, tuple[int, ...]]) -> Iterator[str]:
    for features in sorted({node.op.head_features for node in graph.nodes if isinstance(node.op, ops.Attention)}):
        yield f"angles{features} = rotary_angles(v0, {features})"
    end = {part: last for last, parts in regions.items() for part in parts}
    for index in range(1, len(graph.nodes) - 1):
        if end.get(index, index) != index:
            continue
        parts = regions.get(index, (index,))
        inputs = [entering for part in parts for entering in graph.nodes[part].inputs if entering not in parts]
        if index in regions:
            first, *added = (f"v{entering}" for entering in inputs)
            yield f"v{index} = region({', '.join((first, _layer_path(graph.nodes[parts[0]]), *added))})"
        else:
            yield f"v{index} = {expression(graph, index)}"
        spent = [
            f"v{entering}"
            for entering in dict.fromkeys(inputs)
            if max(end.get(reader, reader) for reader in graph.readers[entering]) == index
        ]
        if spent:
            yield f"del {', '.join(spent)}"
    yield f"return v{graph.nodes[-1].inputs[0]}"


def _layer_path(node: Node) -> str:
    return "self" + "".join(f"._modules[{segment!r}]" for segment in node.name.split("."))


def expression(graph: Graph, index: int) -> str:
    """Expression of a node in the forward function, over `self`, values `v<index>` and the names in `SCOPE`."""
    node = graph.nodes[index]
    first = f"v{node.inputs[0]}" if node.inputs else ""
    match node.op:
        case (
            ops.Convolution()
            | ops.BatchNormalisation()
            | ops.Dense()
            | ops.Embedding()
            | ops.RmsNorm()
            | ops.Attention()
            | ops.GatedMlp()
        ):
            beside = f", angles{node.op.head_features}" if isinstance(node.op, ops.Attention) else ""
            return f"{_layer_path(node)}({first}{beside})"
        case ops.Relu():
            return f"{first}.relu_()" if _may_overwrite(graph, node.inputs[0]) else f"{first}.relu()"
        case ops.Add():
            # in place into a summand without other readers, like a hand-written `out += identity`
            left, right = node.inputs
            if _may_overwrite(graph, left):
                return f"v{left}.add_(v{right})"
            if _may_overwrite(graph, right):
                return f"v{right}.add_(v{left})"
            return f"v{left} + v{right}"
        case ops.Concat():
            return f"cat(({', '.join(f'v{entering}' for entering in node.inputs)}), 1)"
        case ops.MaxPooling(kernel, stride, padding):
            return f"max_pool2d({first}, {kernel!r}, {stride!r}, {padding!r})"
        case ops.AveragePooling(kernel, stride, padding):
            return f"avg_pool2d({first}, {kernel!r}, {stride!r}, {padding!r})"
        case ops.GlobalAveragePooling():
            return f"{first}.mean((2, 3))"
        case ops.Dropout(probability):
            return f"dropout({first}, {probability!r}, self.training)"
        case ops.Input() | ops.TokenInput() | ops.Softmax():
            raise AssertionError(f"{node.name!r}: an input is only ever the first node, a softmax the last")
        case _:
            assert_never(node.op)


def _may_overwrite(graph: Graph, index: int) -> bool:
    """True if the node's value is read once and not kept for its backward pass, as ReLU's and some poolings' are."""
    return len(graph.readers[index]) == 1 and isinstance(
        graph.nodes[index].op, ops.Convolution | ops.BatchNormalisation | ops.Add | ops.Dense
    )


SCOPE: dict[str, Any] = {
    "cat": torch.cat,
    "max_pool2d": torch.max_pool2d,
    "avg_pool2d": nn.functional.avg_pool2d,
    "dropout": nn.functional.dropout,
    "rotary_angles": rotary_angles,
}
"""Functions that expressions call."""


def compiled_source(
    graph: Graph, regions: Mapping[int, tuple[int, ...]] = MappingProxyType({}), **more: Callable[..., Any]
) -> Callable[[Network, Tensor], Tensor]:
    """`more`: functions that the source calls in addition to `SCOPE`."""
    text = source(graph, regions)
    name = f"<network {graph.fingerprint[:16]}{' in regions' if regions else ''}>"
    # so that a traceback shows the line that failed
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = SCOPE | more
    exec(compile(text, name, "exec"), scope)  # names enter the text only as quoted keys
    forward: Callable[[Network, Tensor], Tensor] = scope["forward"]
    return forward


DENSE_DEVIATION = 0.01
"""Standard deviation of a classifier's initial weights, as in Goyal et al., arXiv:1706.02677, section 5.1."""


def initialise(module: nn.Module, seed: int) -> None:
    """Set every tensor of the module to its initial value, in place. Random values depend only on `seed`.

    - convolution: He normal, std = √(2 / fan_in), fan_in = input channels per group · K² (He et al. 2015, eq. 10, the forward
      form, which keeps the scale of activations constant through the depth). 3×3 over 64 channels: √(2/576) = 0.0589
    - batch normalisation: γ = 1, β = 0, running mean 0, running variance 1
    - dense: normal with std 0.01, bias 0
    - operations on tokens (also a dense without bias): normal with std 0.02, divided by √(number of residual operations) for
      the tensors that write to the residual stream (GPT-2, Radford et al. 2019, section 2.3). Gains are 1

    Raise TypeError for any other submodule with tensors, because its values would stay undefined.
    """
    residuals = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, _Residual)]
    projections = {f"{name}.{layer.projection}" for name, layer in residuals}
    for number, (name, layer) in enumerate(module.named_modules()):
        match layer:
            case nn.Embedding() | nn.Linear() if getattr(layer, "bias", None) is None:
                deviation = ops.TOKEN_DEVIATION / (sqrt(len(projections)) if name in projections else 1.0)
                _fill(layer.weight, normal(layer.weight.shape, deviation, stream("initialise", seed, number)))
            case nn.RMSNorm():
                layer.reset_parameters()
            case nn.Conv2d():
                fan_in = layer.weight.shape[1] * layer.weight.shape[2] * layer.weight.shape[3]
                _fill(layer.weight, he_normal(layer.weight.shape, fan_in, stream("initialise", seed, number)))
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
            case nn.BatchNorm1d() | nn.BatchNorm2d() | nn.SyncBatchNorm():
                layer.reset_parameters()
            case nn.Linear():
                draw = normal(layer.weight.shape, DENSE_DEVIATION, stream("initialise", seed, number))
                _fill(layer.weight, draw)
                nn.init.zeros_(layer.bias)
            case _ if own := [*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)]:
                raise TypeError(
                    f"cannot initialise {name!r}: no initial value is defined for {own[0][0]!r} of a {type(layer).__name__}; "
                    "use only Conv2d, BatchNorm1d, BatchNorm2d, SyncBatchNorm, Linear, Embedding and RMSNorm"
                )


def stream(purpose: str, seed: int, number: int) -> torch.Generator:
    """A change of any argument gives an independent CPU generator. `purpose`: any text, such as "noise"."""
    digest = blake2b(f"{purpose} {seed} {number}".encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little"))


def normal(shape: Sequence[int], deviation: float, generator: torch.Generator) -> Tensor:
    return torch.empty(tuple(shape), dtype=torch.float32, device="cpu").normal_(0.0, deviation, generator=generator)


def he_normal(shape: Sequence[int], fan_in: int, generator: torch.Generator) -> Tensor:
    """Return FP32 values from a normal distribution with std = √(2 / fan_in) on the CPU (He et al. 2015, equation 10)."""
    return normal(shape, sqrt(2.0 / fan_in), generator)


def _fill(parameter: Tensor, values: Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(values)


@torch.no_grad()
def carry_out(plan: WeightPlan, parent_state: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    """Return the state dict of a child: its parent's, changed by the plan, in the parent's precision, on its device.

    Unchanged tensors are returned without a copy. Raise ValueError if the plan was made for another network.
    """
    child = dict(parent_state)
    for instruction in plan.instructions:
        name = instruction.tensor
        match instruction:
            case Gather(axis=axis, index=index):
                child[name] = child[name].index_select(axis, torch.tensor(index, device=child[name].device))
            case Divide(axis=axis, counts=counts):
                along = [1] * child[name].dim()
                along[axis] = len(counts)
                child[name] = child[name] / child[name].new_tensor(counts).view(along)
            case Enlarge(kernel=kernel):
                border = (kernel - child[name].shape[-1]) // 2
                child[name] = nn.functional.pad(child[name], (border, border, border, border))
            case Identity(shape=shape):
                child[name] = nn.init.dirac_(_new(child, shape))
            case ZeroTensor(shape=shape):
                child[name] = _new(child, shape).zero_()
            case Fill(shape=shape, value=value):
                child[name] = _new(child, shape).fill_(value)
            case RandomTensor(shape=shape, fan_in=fan_in, ordinal=ordinal):
                child[name] = _new(child, shape).copy_(he_normal(shape, fan_in, stream("fresh", seed, ordinal)))
            case Extend(shape=shape, deviation=deviation, ordinal=ordinal):
                extended = _new(child, shape).zero_()
                if deviation:
                    extended.copy_(normal(shape, deviation, stream("fresh", seed, ordinal)))
                if name in child:
                    extended[tuple(map(slice, child[name].shape))] = child[name]
                child[name] = extended
            case _:
                assert_never(instruction)
        node, _, kind = name.rpartition(".")
        if kind == "running_mean" and name not in parent_state:
            # torch counts batches with the statistics. Plans omit the count, which starts at 0
            child[f"{node}.num_batches_tracked"] = torch.zeros((), dtype=torch.int64, device=child[name].device)
    return child


def _new(state: Mapping[str, Tensor], shape: tuple[int, ...]) -> Tensor:
    """In the precision and on the device of the other tensors."""
    return next(tensor for tensor in state.values() if tensor.is_floating_point()).new_empty(shape)


NOISE = 1e-3
"""Standard deviation of the noise on copied channels, as a share of the RMS of their tensor."""


@torch.no_grad()
def break_symmetry(state: Mapping[str, Tensor], plan: WeightPlan, seed: int) -> dict[str, Tensor]:
    """Return the state dict with small noise on the second and later copies of channels that the plan made.

    Copies of a channel receive the same gradients, and
    without noise a widened network would stay as narrow as its parent. Normalisation is unchanged, because a running variance
    must stay positive.
    """
    noisy = dict(state)
    for number, instruction in enumerate(plan.instructions):
        if not isinstance(instruction, Gather):
            continue
        weight, axis, copies = noisy[instruction.tensor], instruction.axis, _repeated(instruction.index)
        if weight.dim() < 2 or not copies:
            continue
        root_mean_square = torch.linalg.vector_norm(weight, dtype=torch.float64).item() / sqrt(weight.numel())
        shape = list(weight.shape)
        shape[axis] = len(copies)
        noise = normal(shape, NOISE * root_mean_square, stream("noise", seed, number))
        noisy[instruction.tensor] = weight.index_add(
            axis, torch.tensor(copies, device=weight.device), noise.to(device=weight.device, dtype=weight.dtype)
        )
    return noisy


def _repeated(index: tuple[int, ...]) -> list[int]:
    """Return the positions with a source channel that occurred before."""
    seen: set[int] = set()
    return [position for position, source in enumerate(index) if source in seen or seen.add(source)]  # type: ignore[func-returns-value]
