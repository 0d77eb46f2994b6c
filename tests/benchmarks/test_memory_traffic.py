"""Bytes that a step moves, counted from the graph."""

from __future__ import annotations

import pytest

from benchmarks.memory_traffic import bytes_per_image, traffic
from morphism import (
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Graph,
    Input,
    Node,
    Relu,
    Softmax,
    start,
)

# 4×4 maps of 8 channels: 128 elements each
BLOCK = Graph(
    (
        Node("image", Input(2, 4, 4), ()),
        Node("conv1", Convolution(8, 1, 1, 0, 1), (0,)),
        Node("norm1", BatchNormalisation(), (1,)),
        Node("relu1", Relu(), (2,)),
        Node("conv2", Convolution(8, 3, 1, 1, 1), (3,)),
        Node("norm2", BatchNormalisation(), (4,)),
        Node("relu2", Relu(), (5,)),
        Node("pool", GlobalAveragePooling(), (6,)),
        Node("dense", Dense(3), (7,)),
        Node("softmax", Softmax(), (8,)),
    )
)


def test_worked_figures_of_one_small_network() -> None:
    convolutions = (32 + 128) + (32 + 128) + (128 + 128) + 2 * (128 + 128)  # the first has no gradient of the image
    eager = traffic(BLOCK)

    assert eager["convolution"].forward + eager["convolution"].backward == convolutions
    assert (eager["batch normalisation"].forward, eager["batch normalisation"].backward) == (2 * 384, 2 * 640)
    assert (eager["ReLU"].forward, eager["ReLU"].backward) == (2 * 256, 2 * 384)


def test_bytes_of_an_eager_resnet50() -> None:
    """About 470 MB an image in 16 bits (docs/training.md)."""
    assert bytes_per_image(start("resnet50_v1"), 2) / 1e6 == pytest.approx(457, abs=1)
    assert bytes_per_image(start("resnet50_v1_5"), 2) / 1e6 == pytest.approx(477, abs=1)
