"""Sets in memory: laid out for a pass or made batch by batch, primed or not, the batches are the same."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.data import inmemory
from aiperf.data.batches import Batch, DataPass
from aiperf.data.images.pixels import Normaliser
from aiperf.data.inmemory import InMemory, PixelsInMemory
from tests.builders.data_set import CPU


def made(images: int, channels: int, padding: int = 0) -> InMemory:
    numbers = np.random.default_rng(images)
    pixels = torch.from_numpy(numbers.integers(0, 256, (images, 4, 4, channels), dtype=np.uint8))
    labels = numbers.integers(0, 3, images)
    return InMemory(PixelsInMemory(pixels), labels, Normaliser(4, [0.3] * channels, [0.2] * channels), padding)


def same(left: list[Batch], right: list[Batch]) -> bool:
    return len(left) == len(right) and all(
        torch.equal(a.images, b.images)
        and torch.equal(a.targets, b.targets)
        and a.images.is_contiguous(memory_format=torch.channels_last)
        == b.images.is_contiguous(memory_format=torch.channels_last)
        and (a.count, a.global_count) == (b.count, b.global_count)
        for a, b in zip(left, right, strict=True)
    )


@st.composite
def passes(draw: st.DrawFn) -> DataPass:
    ranks = draw(st.integers(1, 3))
    return DataPass(
        batch=draw(st.integers(1, 9)),
        rank=draw(st.integers(0, ranks - 1)),
        ranks=ranks,
        device=CPU,
        channels_last=draw(st.booleans()),
        dtype=draw(st.sampled_from((torch.float32, torch.bfloat16))),
        is_training=draw(st.booleans()),
        augment=draw(st.booleans()),
        epoch=draw(st.integers(0, 5)),
        seed=draw(st.integers(0, 2**64 - 1)),
    )


@settings(max_examples=40, deadline=None)
@given(walk=passes(), images=st.integers(3, 30), channels=st.sampled_from((1, 3)), padding=st.integers(0, 1))
def test_a_prepared_pass_has_the_same_batches(walk: DataPass, images: int, channels: int, padding: int) -> None:
    small, large = made(images, channels, padding), made(images, channels, padding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inmemory, "_SMALL", 0)
        picked = list(large.walk(walk))

    assert same(list(small.walk(walk)), picked)


@settings(max_examples=20, deadline=None)
@given(primed=passes(), walk=passes())
def test_what_was_primed_changes_no_batch_of_any_pass(primed: DataPass, walk: DataPass) -> None:
    expected = list(made(20, 1).walk(walk))
    data = made(20, 1)
    data.prime(primed)
    data.prime(walk)

    assert same(list(data.walk(walk)), expected)
    assert same(list(data.walk(walk)), expected), "and walked again"
    data.prime(primed)
    assert same(list(data.walk(walk)), expected), "another pass was primed"


def test_the_first_batch_of_a_primed_pass_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = made(20, 3, padding=1)
    walk = DataPass(4, 0, 1, CPU, True, torch.float32, True, True)
    data.prime(walk)
    batches = data.walk(walk)

    with monkeypatch.context() as patch:
        patch.setattr(PixelsInMemory, "gather", lambda *_: pytest.fail("pixels were picked within the step"))
        first = next(batches)

    assert first.count == 4 and sum(batch.count for batch in batches) == 16
