"""Laws of initial values."""

from math import sqrt

import pytest
import torch
from torch import nn

from aiperf.train.torch_network import build, initialise, normal, stream
from morphism import start
from tests.builders.network import small_start


def test_initial_values_depend_on_the_type_of_layer() -> None:
    module = build(start("resnet18", image=32))

    initialise(module, seed=0)

    for layer in module.modules():
        match layer:
            case nn.Conv2d():
                fan_in = layer.in_channels * layer.kernel_size[0] ** 2
                # 5 standard errors of a standard deviation estimated from n values, σ/√(2n) each
                tolerance = 5 / sqrt(2 * layer.weight.numel())
                assert layer.weight.std().item() == pytest.approx(sqrt(2 / fan_in), rel=tolerance)
                assert abs(layer.weight.mean().item()) < 5 * sqrt(2 / fan_in / layer.weight.numel())
            case nn.BatchNorm2d():
                assert layer.weight.eq(1).all() and layer.bias.eq(0).all()
                assert layer.running_mean is not None and layer.running_mean.eq(0).all()
                assert layer.running_var is not None and layer.running_var.eq(1).all()
            case nn.Linear():
                assert layer.weight.std().item() == pytest.approx(0.01, rel=0.02)
                assert layer.bias.eq(0).all()
            case _:
                assert not list(layer.parameters(recurse=False))


def test_equal_seeds_give_equal_values_in_any_precision() -> None:
    single, double, other = (build(small_start("digits_small")) for _ in range(3))
    double.double()

    torch.manual_seed(1)
    initialise(single, seed=4)
    torch.manual_seed(2)
    initialise(double, seed=4)
    initialise(other, seed=5)

    assert all(torch.equal(a, b.float()) for a, b in zip(single.parameters(), double.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(single.parameters(), other.parameters(), strict=True))


def test_the_global_generator_is_left_as_it_was() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()

    initialise(build(small_start("digits_small")), seed=4)

    assert torch.equal(torch.get_rng_state(), before)


def test_streams_differ_by_purpose_seed_and_number() -> None:
    drawn = {
        tuple(normal((4,), 1.0, stream(*key)).tolist()) for key in [("a", 0, 0), ("b", 0, 0), ("a", 1, 0), ("a", 0, 1)]
    }

    assert len(drawn) == 4


def test_a_layer_without_a_defined_initial_value_is_named() -> None:
    with pytest.raises(TypeError, match="cannot initialise '1': no initial value is defined for 'weight' of a PReLU"):
        initialise(nn.Sequential(nn.Linear(2, 2), nn.PReLU()), seed=0)
