"""Regions: batch normalisation, an addition if there is one, and ReLU as one compiled function forward and one backward.

Convolutions stay with cuDNN or oneDNN. Each function is compiled once for all sizes, and kept for the life of the process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from aiperf.train.torch_network import Network, compiled_source
from morphism import Graph, ops

_COMPILED: dict[tuple[object, ...], Callable[..., Any]] = {}


def regions_of(graph: Graph) -> dict[int, tuple[int, ...]]:
    """Return nodes of each region by its last one: (normalisation, ReLU) or (normalisation, addition, ReLU)."""
    regions: dict[int, tuple[int, ...]] = {}
    inside: set[int] = set()
    for index, node in enumerate(graph.nodes):
        if not isinstance(node.op, ops.BatchNormalisation):
            continue
        parts = [index]
        for kind in (ops.Add, ops.Relu):
            following = graph.readers[parts[-1]]
            if len(following) == 1 and isinstance(graph.nodes[following[0]].op, kind):
                parts.append(following[0])
        # of two normalisations that are added, the first one is in the region
        if isinstance(graph.nodes[parts[-1]].op, ops.Relu) and inside.isdisjoint(parts):
            regions[parts[-1]] = tuple(parts)
            inside.update(parts)
    return regions


def in_regions(graph: Graph, compiler: str) -> Callable[[Network, Tensor], Tensor]:
    """Return a forward function of the graph's network that computes its regions by compiled functions."""
    return compiled_source(graph, regions_of(graph), region=partial(_region, compiler))


def compilations() -> int:
    """Number of compiled versions of all regions in this process. 0 if torch.compile left one of them eager."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list, innermost_fn

    counts = [len(_debug_get_cache_entry_list(innermost_fn(each).__code__)) for each in _COMPILED.values()]
    return sum(counts) if all(counts) else 0


def _region(compiler: str, images: Tensor, norm: nn.BatchNorm2d, added: Tensor | None = None) -> Tensor:
    # one value per channel is an error, which torch words
    if not norm.training or images.numel() <= images.shape[1]:
        return torch.relu(norm(images) if added is None else norm(images) + added)
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked.add_(1)
    compiled = partial(_compiled, compiler, added is not None)
    running = norm.running_mean, norm.running_var
    result: Tensor = _Region.apply(compiled, images, added, norm.weight, norm.bias, *running)  # type: ignore[no-untyped-call]
    return result


class _Region(torch.autograd.Function):
    """It keeps input and output, which the convolutions beside it keep too. torch's own partition keeps a mask in addition."""

    @staticmethod
    def forward(
        context: Any,
        compiled: Callable[..., Any],
        images: Tensor,
        added: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        *running: Tensor,
    ) -> Any:
        rows, others = _rows(images), None if added is None else _rows(added)
        values = compiled(_forward, rows.dtype)(rows, others, weight.data, bias.data, *running)
        output = _as_images(values[0], images)
        context.save_for_backward(images, output, weight, *values[1:])
        context.compiled, context.has_added = compiled, added is not None
        return output

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        images, output, weight, mean, scale = context.saved_tensors
        rows = _rows(gradients[0])
        of_input, of_added, of_weight, of_bias = context.compiled(_backward, rows.dtype)(
            rows, _rows(images), _rows(output), weight.data, mean, scale, context.has_added
        )
        added = _as_images(of_added, images) if context.has_added else None
        return None, _as_images(of_input, images), added, of_weight, of_bias, None, None


def _rows(images: Tensor) -> Tensor:
    """Matrix of positions × channels: for images in channels_last the same memory.

    Without `data` torch would compile again for views, parameters and tensors with gradients of other sizes.
    """
    return images.permute(0, 2, 3, 1).reshape(-1, images.shape[1]).contiguous().data


def _as_images(rows: Tensor, like: Tensor) -> Tensor:
    count, channels, height, width = like.shape
    return rows.view(count, height, width, channels).permute(0, 3, 1, 2)


def _compiled(compiler: str, has_added: bool, function: FunctionType, dtype: torch.dtype) -> Callable[..., Any]:
    """A function of its own for each kind: torch limits how often one function is compiled."""
    key = compiler, has_added, function, dtype
    if key not in _COMPILED:
        code = function.__code__.replace(co_name=f"{function.__name__}_{len(_COMPILED)}")
        own = FunctionType(code, function.__globals__)
        _COMPILED[key] = torch.compile(own, fullgraph=True, dynamic=True, backend=compiler)
    return _COMPILED[key]


def _forward(
    rows: Tensor, added: Tensor | None, weight: Tensor, bias: Tensor, running_mean: Tensor, running_variance: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    exact, count = rows.float(), rows.shape[0]
    # one pass without cancellation: sums relative to the first position. Welford's algorithm is slow on processors
    shifted = exact - exact[0]
    offset = shifted.sum(0) / count
    variance = ((shifted * shifted).sum(0) / count - offset * offset).clamp(min=0)
    mean = exact[0] + offset
    running_mean.lerp_(mean, ops.BATCH_NORMALISATION_MOMENTUM)
    running_variance.lerp_(variance * (count / (count - 1)), ops.BATCH_NORMALISATION_MOMENTUM)
    scale = (variance + ops.BATCH_NORMALISATION_EPSILON).rsqrt()
    normalised = (exact - mean) * (scale * weight) + bias
    return (normalised if added is None else normalised + added.float()).relu().to(rows.dtype), mean, scale


def _backward(
    gradient: Tensor, rows: Tensor, output: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, has_added: bool
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    through = torch.where(output <= 0, 0, gradient)
    exact, normalised, count = through.float(), (rows.float() - mean) * scale, rows.shape[0]
    of_bias, of_weight = exact.sum(0), (exact * normalised).sum(0)
    of_input = (weight * scale) * (exact - of_bias / count - normalised * (of_weight / count))
    return of_input.to(rows.dtype), through if has_added else None, of_weight, of_bias
