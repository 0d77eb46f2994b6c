"""Starting graphs and their names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morphism import (
    IMAGE_STARTS,
    STARTS,
    TOKEN_STARTS,
    Convolution,
    IllegalGraph,
    Map,
    TokenNumbers,
    Tokens,
    UnknownStart,
    Vector,
    cost,
    start,
)


@given(st.sampled_from(IMAGE_STARTS), st.integers(8, 64), st.integers(1, 5), st.integers(2, 30))
def test_every_start_takes_any_image_channels_and_classes(name: str, image: int, channels: int, classes: int) -> None:
    graph = start(name, image=image, channels=channels, classes=classes)

    assert graph.shapes[0] == Map(channels, image, image)
    assert graph.shapes[-1] == Vector(classes)


@given(st.sampled_from(TOKEN_STARTS), st.integers(1, 64), st.integers(2, 30))
def test_language_models_take_any_length_and_vocabulary(name: str, length: int, vocabulary: int) -> None:
    graph = start(name, image=length, classes=vocabulary)

    assert graph.shapes[0] == TokenNumbers(length, vocabulary)
    assert graph.shapes[-1] == Tokens(length, vocabulary)


@pytest.mark.parametrize(("name", "parameters"), [("llama_tiny", 857_216), ("llama_162m", 162_148_608)])
def test_parameters_of_the_language_models(name: str, parameters: int) -> None:
    assert cost(start(name)).parameters == parameters


def test_starts_have_different_fingerprints() -> None:
    assert len({start(name).fingerprint for name in STARTS}) == len(STARTS)


@pytest.mark.parametrize(("name", "strided"), [("resnet50_v1", "conv1"), ("resnet50_v1_5", "conv2")])
def test_resnet50_stages_stride_by_their_version(name: str, strided: str) -> None:
    graph = start(name)

    for stage in (2, 3, 4):
        for conv in ("conv1", "conv2", "conv3"):
            op = graph.nodes[graph.index(f"stage{stage}.block1.{conv}")].op
            assert isinstance(op, Convolution)
            assert op.stride == (2 if conv == strided else 1)


def test_the_digits_network_is_large_enough_to_measure_training() -> None:
    assert 10e6 < cost(start("digits_small")).forward_flops < 30e6


def test_an_unknown_start_is_refused_with_the_known_names() -> None:
    with pytest.raises(UnknownStart, match=r"'resnet51'.*resnet50_v1, resnet50_v1_5, resnet18, resnet20, digits_small"):
        start("resnet51")


def test_a_start_without_classes_is_refused() -> None:
    with pytest.raises(IllegalGraph, match="out_features must be an integer from 1"):
        start("resnet18", classes=0)
