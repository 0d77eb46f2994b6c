"""The learning rate that is scaled with the global batch, and its warm-up."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.train.optimiser import EagerSgd
from aiperf.train.trainer_config import TrainerConf, learning_rate
from tests.builders.order import epochs, order, train

SCALED = TrainerConf(scale_learning_rate=True, reference_batch=256)
BATCHES = st.integers(257, 65536)


def test_a_scaled_learning_rate_warms_up_over_five_epochs() -> None:
    """Goyal et al. 2017, section 2.2: from η to kη, by equal amounts per step, in 5 epochs.

    Then the schedule is unchanged.
    """
    steady = replace(SCALED, decay_epochs=10**9)

    rates = [
        learning_rate(steady, epoch, 1024, done) for epoch, done in ((1, 0.0), (1, 0.5), (3, 0.5), (6, 0.0), (20, 0.7))
    ]

    assert rates == pytest.approx([0.1, 0.13, 0.25, 0.4, 0.4])


@given(BATCHES, st.integers(1, 5), st.floats(0, 1), st.floats(0, 1))
def test_a_scaled_rate_rises_evenly_during_warm_up(batch: int, epoch: int, done: float, later: float) -> None:
    steady = replace(SCALED, decay_epochs=10**9)
    done, later = sorted((done, later))

    slow, fast = learning_rate(steady, epoch, batch, done), learning_rate(steady, epoch, batch, later)

    assert 0.1 * (1 - 1e-6) <= slow <= fast <= 0.1 * batch / 256 * (1 + 1e-6)
    assert fast - slow == pytest.approx((0.1 * batch / 256 - 0.1) * (later - done) / 5, abs=1e-5 * batch / 256)


@given(BATCHES, st.integers(6, 60), st.floats(0, 1))
def test_after_warm_up_the_rate_is_the_plain_one_scaled(batch: int, epoch: int, done: float) -> None:
    assert learning_rate(SCALED, epoch, batch, done) == pytest.approx(
        learning_rate(TrainerConf(), epoch, batch) * batch / 256
    )


@given(st.integers(8, 65536), st.integers(1, 60), st.floats(0, 1))
def test_what_is_not_scaled_up_is_not_warmed_up(batch: int, epoch: int, done: float) -> None:
    assert learning_rate(TrainerConf(), epoch, batch, done) == learning_rate(TrainerConf(), epoch, 256)
    if batch <= 256:
        expected = learning_rate(TrainerConf(), epoch, 256) * batch / 256
        assert learning_rate(SCALED, epoch, batch, done) == pytest.approx(expected)


def test_steps_of_a_warmed_up_epoch_are_done_at_a_rising_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """150 images at batch 64, against a reference of 8: three steps an epoch, k = 8."""
    conf = TrainerConf(threads=1, precision="fp32", learning_rate=0.001, scale_learning_rate=True, reference_batch=8)
    used: list[float] = []
    step = EagerSgd.step

    def noting(optimiser: EagerSgd) -> None:
        used.append(optimiser.param_groups[0]["lr"])
        step(optimiser)

    monkeypatch.setattr(EagerSgd, "step", noting)

    words = epochs(train(order(last_epoch=2, batch_size=64), tmp_path, conf))

    of_an_epoch = len(used) // 2
    expected = [learning_rate(conf, e, 64, s / of_an_epoch) for e in (1, 2) for s in range(of_an_epoch)]
    assert used == pytest.approx(expected) and used == sorted(used) and used[0] == 0.001
    assert [word.learning_rate for word in words] == pytest.approx([used[of_an_epoch - 1], used[-1]])


@given(st.integers(0, 50), st.integers(2, 200), BATCHES)
def test_a_cosine_falls_from_its_full_rate_to_above_zero(warmup: int, falling: int, batch: int) -> None:
    """Half a cosine from the end of the warm-up to `decay_epochs`, as in the published reference of HPC AI500."""
    conf = replace(SCALED, rate="cosine", decay_epochs=warmup + falling, warmup_epochs=warmup)

    rates = [learning_rate(conf, epoch, batch, 1.0) for epoch in range(1, warmup + falling + 2)]

    assert rates[warmup] == max(rates)
    assert all(later < earlier for earlier, later in pairwise(rates[warmup:-1]))
    assert 0 < rates[-1] == rates[-2]


def test_a_cosine_is_at_half_its_rate_at_half_its_epochs() -> None:
    conf = TrainerConf(rate="cosine", decay_epochs=90, scale_learning_rate=True, warmup_epochs=8, learning_rate=0.256)

    assert learning_rate(conf, 9, 256) == pytest.approx(0.256)
    assert learning_rate(conf, 50, 256) == pytest.approx(0.128)


@given(st.integers(1, 5), st.floats(0, 1), st.sampled_from(["linear", "cosine"]))
def test_the_rate_of_adamw_rises_from_a_tenth_in_the_first_epoch(epoch: int, done: float, rate: str) -> None:
    conf = TrainerConf(optimiser="adamw", rate=rate, decay_epochs=10)
    flat = replace(conf, warmup_epochs=0)

    share = learning_rate(conf, epoch, 16, done) / learning_rate(flat, 1 if epoch == 1 else epoch, 16, done)

    if epoch == 1:
        assert share == pytest.approx(0.1 + 0.9 * done)
    elif rate == "linear":
        assert share == 1.0
