"""A graph computed node by node in float64 with numpy, and weight plans carried out: slow, plain, and with no torch."""

from typing import TypeAlias, assert_never

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from morphism import (
    BATCH_NORMALISATION_EPSILON,
    Add,
    Attention,
    AveragePooling,
    BatchNormalisation,
    Concat,
    Convolution,
    Dense,
    Divide,
    Dropout,
    Embedding,
    Enlarge,
    Extend,
    Fill,
    GatedMlp,
    Gather,
    GlobalAveragePooling,
    Graph,
    Identity,
    Input,
    Map,
    MaxPooling,
    RandomTensor,
    Relu,
    RmsNorm,
    Softmax,
    TokenInput,
    TokenNumbers,
    Vector,
    WeightPlan,
    ZeroTensor,
    channels_of,
)
from morphism.ops import RMS_NORM_EPSILON, ROTARY_BASE

Array: TypeAlias = NDArray[np.float64]
Weights: TypeAlias = dict[str, Array]


def tensor_shapes(graph: Graph) -> dict[str, tuple[int, ...]]:
    """The tensors that a graph's module has, and their shapes."""
    shapes: dict[str, tuple[int, ...]] = {}
    for node in graph.nodes:
        match node.op:
            case Convolution() as op:
                entering = graph.shapes[node.inputs[0]]
                assert isinstance(entering, Map)
                shapes[f"{node.name}.weight"] = (op.out_channels, entering.channels // op.groups, op.kernel, op.kernel)
            case Dense(features):
                entering = graph.shapes[node.inputs[0]]
                shapes[f"{node.name}.weight"] = (features, channels_of(entering))
                if isinstance(entering, Vector):
                    shapes[f"{node.name}.bias"] = (features,)
            case Embedding(features):
                entering = graph.shapes[node.inputs[0]]
                assert isinstance(entering, TokenNumbers)
                shapes[f"{node.name}.weight"] = (entering.vocabulary, features)
            case RmsNorm():
                shapes[f"{node.name}.weight"] = (channels_of(graph.shapes[node.inputs[0]]),)
            case Attention(heads, head_features):
                features = channels_of(graph.shapes[node.inputs[0]])
                for tensor in ("query", "key", "value"):
                    shapes[f"{node.name}.{tensor}.weight"] = (heads * head_features, features)
                shapes[f"{node.name}.output.weight"] = (features, heads * head_features)
            case GatedMlp(hidden):
                features = channels_of(graph.shapes[node.inputs[0]])
                shapes[f"{node.name}.gate.weight"] = shapes[f"{node.name}.up.weight"] = (hidden, features)
                shapes[f"{node.name}.down.weight"] = (features, hidden)
            case BatchNormalisation():
                entering = graph.shapes[node.inputs[0]]
                assert isinstance(entering, Map)
                for tensor in ("weight", "bias", "running_mean", "running_var"):
                    shapes[f"{node.name}.{tensor}"] = (entering.channels,)
            case _:
                pass
    return shapes


def trained_weights(graph: Graph, seed: int) -> Weights:
    """Weights as after some training: no γ is 1, no running statistics are those of the beginning."""
    random = np.random.default_rng(seed)
    weights: Weights = {}
    for name, shape in tensor_shapes(graph).items():
        if name.endswith("running_var"):
            weights[name] = random.uniform(0.5, 2.0, shape)
        else:
            weights[name] = random.normal(0.0, 1.0, shape) / max(1.0, np.sqrt(np.prod(shape[1:])))
    return weights


def carried_out(plan: WeightPlan, parent: Weights, seed: int) -> Weights:
    child = dict(parent)
    for instruction in plan.instructions:
        match instruction:
            case Gather(tensor, axis, index):
                child[tensor] = np.take(child[tensor], index, axis)
            case Divide(tensor, axis, counts):
                along = [1] * child[tensor].ndim
                along[axis] = len(counts)
                child[tensor] = child[tensor] / np.array(counts, dtype=np.float64).reshape(along)
            case Identity(tensor, shape):
                child[tensor] = np.zeros(shape)
                for channel in range(shape[0]):
                    child[tensor][channel, channel, shape[2] // 2, shape[3] // 2] = 1.0
            case ZeroTensor(tensor, shape):
                child[tensor] = np.zeros(shape)
            case Fill(tensor, shape, value):
                child[tensor] = np.full(shape, value)
            case RandomTensor(tensor, shape, fan_in, ordinal):
                child[tensor] = np.random.default_rng((seed, ordinal)).normal(0.0, np.sqrt(2.0 / fan_in), shape)
            case Extend(tensor, shape, deviation, ordinal):
                extended = np.random.default_rng((seed, ordinal)).normal(0.0, deviation, shape)
                if tensor in child:
                    extended[tuple(slice(length) for length in child[tensor].shape)] = child[tensor]
                child[tensor] = extended
            case Enlarge(tensor, kernel):
                border = (kernel - child[tensor].shape[-1]) // 2
                child[tensor] = np.pad(child[tensor], ((0, 0), (0, 0), (border, border), (border, border)))
            case _:
                assert_never(instruction)
    return child


def logits(graph: Graph, weights: Weights, images: Array) -> Array:
    """Return the logits in evaluation mode of images (batch, channels, height, width) or of token numbers (batch, length)."""
    values: list[Array] = []
    for node in graph.nodes:
        read = [values[entering] for entering in node.inputs]
        match node.op:
            case Input() | TokenInput():
                values.append(images)
            case Convolution() as op:
                values.append(_convolved(read[0], weights[f"{node.name}.weight"], op))
            case BatchNormalisation():
                γ, β, mean, variance = (
                    weights[f"{node.name}.{tensor}"][:, None, None]
                    for tensor in ("weight", "bias", "running_mean", "running_var")
                )
                values.append((read[0] - mean) / np.sqrt(variance + BATCH_NORMALISATION_EPSILON) * γ + β)
            case Relu():
                values.append(np.maximum(read[0], 0.0))
            case Add():
                values.append(read[0] + read[1])
            case Concat():
                values.append(np.concatenate(read, axis=1))
            case MaxPooling() as op:
                values.append(_windows(read[0], op.kernel, op.stride, op.padding, -np.inf).max(axis=(-2, -1)))
            case AveragePooling() as op:
                values.append(_windows(read[0], op.kernel, op.stride, op.padding, 0.0).mean(axis=(-2, -1)))
            case GlobalAveragePooling():
                values.append(read[0].mean(axis=(2, 3)))
            case Dense():
                values.append(read[0] @ weights[f"{node.name}.weight"].T + weights.get(f"{node.name}.bias", 0.0))
            case Embedding():
                values.append(weights[f"{node.name}.weight"][read[0].astype(int)])
            case RmsNorm():
                root = np.sqrt((read[0] ** 2).mean(axis=-1, keepdims=True) + RMS_NORM_EPSILON)
                values.append(read[0] / root * weights[f"{node.name}.weight"])
            case Attention() as op:
                values.append(
                    _attended(read[0], op, {name: weights[f"{node.name}.{name}.weight"] for name in _OF_HEADS})
                )
            case GatedMlp():
                gate, up, down = (weights[f"{node.name}.{name}.weight"] for name in ("gate", "up", "down"))
                gated = read[0] @ gate.T
                values.append((gated / (1.0 + np.exp(-gated)) * (read[0] @ up.T)) @ down.T)
            case Dropout() | Softmax():
                values.append(read[0])
            case _:
                assert_never(node.op)
    return values[-1]


_OF_HEADS = ("query", "key", "value", "output")


def _attended(tokens: Array, op: Attention, weights: Weights) -> Array:
    """Every token one by one, over the tokens up to its own."""
    query, key, value = (
        (tokens @ weights[name].T).reshape(*tokens.shape[:2], op.heads, op.head_features) for name in _OF_HEADS[:3]
    )
    query, key = _turned(query), _turned(key)
    mixed = np.zeros_like(value)
    for place in range(tokens.shape[1]):
        scores = np.einsum("bhd,bshd->bhs", query[:, place], key[:, : place + 1]) / np.sqrt(op.head_features)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed[:, place] = np.einsum("bhs,bshd->bhd", shares, value[:, : place + 1])
    return mixed.reshape(*tokens.shape[:2], -1) @ weights["output"].T


def _turned(heads: Array) -> Array:
    """Pairs (i, i + half) of features as complex numbers, turned by the position."""
    half = heads.shape[-1] // 2
    turns = np.outer(np.arange(heads.shape[1]), ROTARY_BASE ** (-np.arange(half) / half))
    turned = (heads[..., :half] + 1j * heads[..., half:]) * np.exp(1j * turns)[:, None, :]
    return np.concatenate((turned.real, turned.imag), axis=-1)


def _windows(images: Array, kernel: int, stride: int, padding: int, outside: float) -> Array:
    around = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(images, around, constant_values=outside)
    return sliding_window_view(padded, (kernel, kernel), axis=(2, 3))[:, :, ::stride, ::stride]


def _convolved(images: Array, weight: Array, op: Convolution) -> Array:
    windows = _windows(images, op.kernel, op.stride, op.padding, 0.0)
    entering, leaving = windows.shape[1] // op.groups, weight.shape[0] // op.groups
    groups = [
        np.einsum(
            "bchwij,ocij->bohw",
            windows[:, group * entering : (group + 1) * entering],
            weight[group * leaving : (group + 1) * leaving],
            optimize=True,
        )
        for group in range(op.groups)
    ]
    return np.concatenate(groups, axis=1)
