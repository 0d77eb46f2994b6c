"""One training step of a network, counted by torch, or executed alone for the counters of a processor."""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from aiperf.train.torch_network import build, initialise
from morphism import Graph, Input, TokenInput, decode


def counted_by_torch(graph: Graph, batch: int, device: str = "meta") -> tuple[int, int]:
    """Return the forward and backward operations of one step by torch's FlopCounterMode: convolutions and matrix products.

    The images need no gradient, as in training. On the meta device nothing is computed, but all operations are counted.
    Attention is computed by matrix products, since torch does not count the fused kernels of processors.
    """
    module, images, _ = prepared(graph, batch, device)
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            loss = module(images).sum()
        with FlopCounterMode(display=False) as backward:
            loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()


def prepared(graph: Graph, batch: int, device: str) -> tuple[nn.Module, Tensor, Tensor]:
    """Return a network in training mode, a batch of images or sequences for it, and its targets."""
    with torch.device(device):
        module = build(graph).train()
    if device != "meta":
        initialise(module, seed=0)
    image = graph.nodes[0].op
    if isinstance(image, TokenInput):
        numbers = torch.zeros(batch, image.length, dtype=torch.int64, device=device)
        return module, numbers, numbers.flatten()
    assert isinstance(image, Input)
    images = torch.ones(batch, image.channels, image.height, image.width, device=device)
    return module, images, torch.zeros(batch, dtype=torch.int64, device=device)


def mean_loss(module: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    """Return the cross entropy of a batch that `prepared` made."""
    return nn.functional.cross_entropy(module(images).flatten(0, -2), targets)


if __name__ == "__main__":  # arguments: batch and steps; standard input: the graph's file
    batch, steps = map(int, sys.argv[1:])
    module, images, targets = prepared(decode(sys.stdin.read()), batch, "cpu")
    optimiser = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        torch.autograd.backward(mean_loss(module, images, targets))
        optimiser.step()
