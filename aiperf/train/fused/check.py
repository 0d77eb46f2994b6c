"""The fused operations against torch's own, on the device at hand: a kernel that computes something else is not taken."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from aiperf.train.fused import Fusion

TOLERANCES = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
"""Of a tensor's norm: FP32 sums in another order, and a rounding or two of the type. Not of its largest value: where a rounding
makes zero of a value, the ReLU lets nothing of the gradient through there, and rightly so on both sides."""
TF32 = 5e-3
"""Where products of FP32 are TF32's."""
_CHANNELS = 72
"""Of the tensors that are compared: no multiple of the kernels' blocks."""


@functools.cache
def worst(device: torch.device, dtype: torch.dtype, fusion: Fusion) -> str | None:
    """What lies beyond its tolerance, None where nothing does. Compiles the kernels, in seconds; asked once a process."""
    for relu in (True, False):
        for adds in (True, False):
            found = _compared(device, dtype, fusion, relu=relu, adds=adds)
            if found is not None:
                return f"{found} (relu={relu}, addition={adds}, {dtype})"
    return None


def _compared(device: torch.device, dtype: torch.dtype, fusion: Fusion, *, relu: bool, adds: bool) -> str | None:
    from aiperf.train.fused.norm import norm, pointwise

    draw = torch.Generator().manual_seed(0)

    def drawn(mean: float = 0.0) -> Tensor:
        values = torch.randn((3, _CHANNELS, 7, 9), generator=draw) * 2 + mean
        return values.to(device, dtype, memory_format=torch.channels_last).requires_grad_()

    def layers() -> tuple[nn.Conv2d, nn.BatchNorm2d]:
        torch_draw = torch.Generator().manual_seed(1)
        convolution, normalisation = nn.Conv2d(_CHANNELS, _CHANNELS, 1, bias=False), nn.BatchNorm2d(_CHANNELS)
        with torch.no_grad():
            for parameter in (convolution.weight, normalisation.weight, normalisation.bias):
                parameter.copy_(torch.randn(parameter.shape, generator=torch_draw))
        return convolution.to(device), normalisation.to(device)

    x, residual, gradient = drawn(mean=3.0), drawn(), drawn().detach()
    (ours, our_norm), (theirs, their_norm) = layers(), layers()
    inputs = [x, residual] if adds else [x]
    with torch.autocast(device.type, dtype, enabled=dtype is not torch.float32):
        if fusion == "conv":
            z, statistics = pointwise(x, ours)
        else:
            z, statistics = ours(x), None
        y = norm(z, our_norm, residual if adds else None, relu, statistics)
        expected = their_norm(theirs(x))
        expected = expected + residual if adds else expected
        expected = expected.relu() if relu else expected
    # what torch.autograd.grad is given is the same for both
    own = torch.autograd.grad(y, [*inputs, ours.weight, our_norm.weight, our_norm.bias], gradient)
    known = torch.autograd.grad(expected, [*inputs, theirs.weight, their_norm.weight, their_norm.bias], gradient)
    names = [*("images", "residual")[: len(inputs)], "convolution", "gamma", "beta"]
    pairs = {
        "output": (y, expected),
        "running mean": (our_norm.running_mean, their_norm.running_mean),
        "running variance": (our_norm.running_var, their_norm.running_var),
        **{f"gradient of {name}": pair for name, pair in zip(names, zip(own, known, strict=True), strict=True)},
    }
    tolerance = TOLERANCES[dtype]
    if dtype is torch.float32 and torch.backends.cuda.matmul.allow_tf32:
        tolerance = TF32
    for name, (found, wanted) in pairs.items():
        assert found is not None and wanted is not None, name
        difference = float((found.detach().float() - wanted.detach().float()).norm() / wanted.detach().float().norm())
        if not difference <= tolerance:  # nor is what is not a number
            return f"{name} differs by {difference:.2g} of its norm, at most {tolerance:.2g} is let pass"
    return None
