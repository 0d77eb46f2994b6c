"""The order of an epoch, its steps and shares, and the numbers of each image."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from aiperf.data.errors import DataError
from aiperf.data.visiting_order import draws, shuffled, steps, training_steps

_IMAGES = st.integers(1, 3000)
_BATCH = st.integers(1, 70)
_RANKS = st.integers(1, 9)


@given(_IMAGES, _BATCH, _RANKS)
def test_every_image_is_on_exactly_one_rank_of_exactly_one_step(images: int, batch: int, ranks: int) -> None:
    assume(images >= ranks)

    shares = [step.share(rank, ranks) for step in steps(images, batch, ranks) for rank in range(ranks)]

    assert [i for share in shares for i in range(share.start, share.stop)] == list(range(images))


@given(_IMAGES, _BATCH, _RANKS)
def test_shares_of_a_step_differ_by_at_most_one_image(images: int, batch: int, ranks: int) -> None:
    assume(images >= ranks)
    least = 2 if batch >= 4 and images >= 2 * ranks else 1

    for step in steps(images, batch, ranks):
        sizes = [share.stop - share.start for share in (step.share(rank, ranks) for rank in range(ranks))]

        assert min(sizes) >= least
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) <= (batch if batch > 1 else 2)


def test_a_last_step_that_is_too_small_takes_images() -> None:
    assert [step.images for step in steps(1000, 128, 2)] == [256, 256, 256, 232]
    assert [step.images for step in steps(257, 128, 1)] == [128, 127, 2]
    assert [step.images for step in steps(257, 64, 2)] == [128, 125, 4]


@given(st.integers(8, 3000), st.integers(1, 300), st.integers(1, 8))
def test_a_training_epoch_visits_each_image_at_most_once(images: int, batch: int, ranks: int) -> None:
    cut = training_steps(images, batch, ranks)

    whole = batch * ranks
    if images >= whole:
        assert [step.images for step in cut] == [whole] * (images // whole)
        assert {
            step.share(rank, ranks).stop - step.share(rank, ranks).start for step in cut for rank in range(ranks)
        } == {batch}
    else:
        assert cut == steps(images, batch, ranks)
    assert cut[0].start == 0 and all(a.stop == b.start for a, b in pairwise(cut)) and cut[-1].stop <= images


def test_over_the_epochs_every_image_is_visited() -> None:
    """The 44 of 300 images that are left out of an epoch are random."""
    last = training_steps(300, 128, 2)[-1].stop

    visited = set(np.concatenate([shuffled(300, 7, epoch)[:last] for epoch in range(1, 11)]).tolist())

    assert last == 256 and visited == set(range(300))


def test_fewer_images_than_ranks_are_refused() -> None:
    with pytest.raises(DataError, match="there are 3 images for 4 ranks: use at most 3 ranks"):
        steps(3, 8, 4)


@given(_IMAGES, st.integers(-(2**70), 2**70), st.integers(0, 1000))
def test_the_order_of_an_epoch_depends_on_seed_and_number(images: int, seed: int, epoch: int) -> None:
    order = shuffled(images, seed, epoch)

    assert sorted(order.tolist()) == list(range(images))
    shuffled.cache_clear()
    assert np.array_equal(order, shuffled(images, seed, epoch))


def test_epochs_and_seeds_shuffle_differently_and_evenly() -> None:
    orders = [shuffled(10_000, seed, epoch) for seed in (0, 1) for epoch in (0, 1)]

    for number, order in enumerate(orders):
        for other in orders[number + 1 :]:
            assert np.mean(order == other) < 0.002
        # a rank correlation near zero with the files' order: 4 standard deviations
        assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.04


def test_the_order_is_the_same_on_every_machine() -> None:
    assert shuffled(10, 7, 3).tolist() == [9, 0, 4, 2, 3, 6, 1, 8, 7, 5]


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=20, unique=True), st.integers(0, 2**63), st.integers(0, 99))
def test_an_image_s_numbers_depend_on_that_image_alone(images: list[int], seed: int, epoch: int) -> None:
    together = draws(np.array(images), 5, seed, epoch)

    assert together.min() >= 0 and together.max() < 1
    for image, numbers in zip(images, together, strict=True):
        assert np.array_equal(draws(np.array([image]), 5, seed, epoch)[0], numbers)


def test_an_image_s_numbers_are_evenly_spread_and_unrelated() -> None:
    numbers = draws(np.arange(20_000), 3, 11, 0)

    assert np.abs(numbers.mean(0) - 0.5).max() < 0.01
    assert np.abs(np.histogram(numbers, 10, (0, 1))[0] / numbers.size - 0.1).max() < 0.005
    assert np.abs(np.corrcoef(numbers.T) - np.eye(3)).max() < 0.03
