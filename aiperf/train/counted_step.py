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
    module, images = _prepared(graph, batch, device)
    with sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as forward:
            loss = module(images).sum()
        with FlopCounterMode(display=False) as backward:
            loss.backward()
    return forward.get_total_flops(), backward.get_total_flops()


def _prepared(graph: Graph, batch: int, device: str) -> tuple[nn.Module, Tensor]:
    with torch.device(device):
        module = build(graph).train()
    if device != "meta":
        initialise(module, seed=0)
    image = graph.nodes[0].op
    if isinstance(image, TokenInput):
        return module, torch.zeros(batch, image.length, dtype=torch.int64, device=device)
    assert isinstance(image, Input)
    return module, torch.ones(batch, image.channels, image.height, image.width, device=device)


if __name__ == "__main__":  # arguments: batch and steps; standard input: the graph's file
    batch, steps = map(int, sys.argv[1:])
    module, images = _prepared(decode(sys.stdin.read()), batch, "cpu")
    optimiser = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(steps):
        optimiser.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(module(images), torch.zeros(batch, dtype=torch.long)))
        optimiser.step()
