"""Simulated machines, files and learning curves: small models, compared with their definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.data.visiting_order import training_steps
from aiperf.simulate.model.learning_curves import ByOperations, curve
from aiperf.simulate.model.machine_state import Checkpoints, VirtualClock
from aiperf.simulate.model.profile import pace
from aiperf.simulate.model.simulated_attempt import halves
from cluster.simulated import SimulatedConf
from cluster.topology import LinkConf
from morphism import cost, start

RESNET50 = cost(start("resnet50_v1"))


@given(st.integers(8, 512), st.floats(0.2, 2.0))
def test_the_parts_of_an_epoch_add_up(batch: int, speed: float) -> None:
    conf = SimulatedConf()

    found = pace(conf, RESNET50, batch, speed, 1_281_167, 50_000)

    assert found.step_seconds == pytest.approx(found.busy_seconds + found.input_seconds)
    assert found.steps == 1_281_167 // (8 * batch)
    assert found.training_seconds == pytest.approx(found.steps * found.step_seconds)
    # Never faster than the accelerators are.
    trained = found.steps * found.images_per_step
    assert found.training_seconds >= trained * RESNET50.training_flops / (8 * conf.flops * speed)


@given(st.integers(2, 3000), st.integers(1, 512), st.integers(1, 2))
def test_a_simulated_epoch_has_the_images_of_a_real_one(images: int, batch: int, ranks: int) -> None:
    found = pace(SimulatedConf(accelerators=ranks), RESNET50, batch, 1.0, images, 100)

    real = training_steps(images, batch, ranks)
    assert (found.steps, found.steps * found.images_per_step) == (len(real), sum(step.images for step in real))


def test_long_backward_pass_hides_the_exchange() -> None:
    slow_links = SimulatedConf(links=[LinkConf(8, 1e-5, 5e9)])

    assert pace(slow_links, RESNET50, 448, 1.0, 1_281_167, 50_000).communication_seconds == 0.0
    assert pace(slow_links, RESNET50, 8, 1.0, 1_281_167, 50_000).communication_seconds > 0.0


@given(st.floats(0.0, 1.0), st.integers(2, 60_000))
def test_halves_are_parts_of_the_accuracy_in_proportion(accuracy: float, samples: int) -> None:
    found = halves(accuracy, samples)

    assert found is not None
    assert found.even_correct + found.odd_correct == round(accuracy * samples)
    assert 0 <= found.even_correct <= found.even_samples == samples - samples // 2
    assert 0 <= found.odd_correct <= found.odd_samples == samples // 2
    assert found.accuracies == pytest.approx((accuracy, accuracy), abs=2 / samples)


@given(st.integers(0, 2**40), st.floats(1.0, 4.0), st.floats(0.0, 200.0))
def test_curve_depends_on_its_seed_and_is_within_bounds(seed: int, flops: float, inherited: float) -> None:
    floor = ByOperations(1).floor_of(flops)
    first, again = (curve(seed, 1000, floor, inherited, 60) for _ in range(2))

    assert first == again
    assert all(0 < first.error(epoch) <= first.chance_error for epoch in range(1, 61))


def test_operations_epochs_and_inheritance_improve_the_mean() -> None:
    def mean(flops: float, inherited: float, epoch: int) -> float:
        floor = ByOperations(1).floor_of(flops)
        return sum(curve(seed, 1000, floor, inherited, 60).error(epoch) for seed in range(50)) / 50

    assert mean(4.0, 0, 60) < mean(1.0, 0, 60)
    assert mean(1.0, 0, 60) < mean(1.0, 0, 10) < mean(1.0, 0, 1)
    assert mean(1.0, 30, 1) < mean(1.0, 0, 1)


def test_a_checkpoint_outlives_its_successor_for_a_while() -> None:
    stored = Checkpoints(keep_seconds=30.0)

    stored.save(7, 1, 0.8, at=0.0)
    stored.save(7, 2, 1.6, at=10.0)
    assert stored.holds(7, 1) and stored.newest(7) == 1.6
    stored.save(7, 3, 2.4, at=50.0)
    assert not stored.holds(7, 1) and stored.holds(7, 2) and stored.holds(7, 3)
    stored.drop(7)
    assert stored.newest(7) is None and len(stored) == 0


def test_a_virtual_clock_never_runs_back() -> None:
    clock = VirtualClock(5.0)
    clock.advance(6.0)

    with pytest.raises(AssertionError, match="run back"):
        clock.advance(5.5)
    assert clock.now() == 6.0
