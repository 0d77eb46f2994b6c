"""Measured times of a step by kind of layer."""

from __future__ import annotations

import pytest

from aiperf.train.tracing.kernel_trace import OTHER
from aiperf.train.tracing.layer_times import layer_times
from morphism import start


def test_kinds_and_the_rest_add_up_to_the_step() -> None:
    whole, parts = layer_times(start("digits_small"), 4, "fp32", steps=1)

    assert sum(parts.values()) == pytest.approx(whole)
    assert {"convolution forward", "convolution backward", "batch_normalisation forward", OTHER} <= parts.keys()
    assert all(seconds > 0 for name, seconds in parts.items() if name != OTHER)
