"""Batch study: laws of the curve and the regions, and the best batch of planted runs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.scaling.batch import BatchStudy, batch_study
from aiperf.scaling.point import Point
from aiperf.scaling.scale_text import sentences
from aiperf.scaling.study import study
from tests.builders.journal import evaluated
from tests.builders.scaling_point import steady

OUT = Fraction(0)


def trained(batch: int, epochs: int | None, rate: float = 1000.0, **changes: Any) -> Point:
    """Run of one accelerator that reached the target after these epochs. 1024 training images."""
    seen = [evaluated(0, float(n), 0.95 if n == epochs else 0.5, epoch=n) for n in range(1, (epochs or 3) + 1)]
    return steady(1, rate, batch=batch, epochs=tuple(seen), training_images=1024, target=0.9, **changes)


def found(*points: Point) -> BatchStudy:
    result = batch_study(points, OUT)
    assert result is not None
    return result


def on_curve(least: float, critical: float, batches: list[int]) -> list[Point]:
    """Runs whose steps are those of the curve, rounded to whole epochs of one step."""
    return [
        steady(
            1, 1000.0, batch=batch, training_images=1, target=0.9,
            epochs=(evaluated(0, 1.0, 0.95, epoch=round(least * (1 + critical / batch))),),
        )
        for batch in batches
    ]  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.floats(1e4, 1e6), st.floats(10, 3000))
def test_the_fit_recovers_the_curve(least: float, critical: float) -> None:
    curve = found(*on_curve(least, critical, [16, 64, 256, 1024])).curve

    assert curve is not None
    assert curve.critical_batch == pytest.approx(critical, rel=0.02)
    assert curve.least_steps == pytest.approx(least, rel=0.02)


def test_the_interval_of_the_fit_covers_runs_that_scatter() -> None:
    scattered = [
        trained(batch, epochs + more) for batch, epochs in ((16, 10), (64, 12), (256, 20)) for more in (-1, 0, 1)
    ]

    curve = found(*scattered).curve

    assert curve is not None and curve.interval[0] is not None and curve.interval[1] is not None
    assert curve.interval[0] < curve.critical_batch < curve.interval[1]


def test_steps_are_whole_epochs_of_the_global_batch() -> None:
    assert trained(64, 5).steps_to_target == 5 * 16
    assert trained(64, None).steps_to_target is None
    assert trained(4096, 5).steps_to_target == 5


def test_regions_go_from_perfect_to_none() -> None:
    epochs = {16: 8, 32: 8, 64: 12, 128: 24}
    runs = [trained(batch, of + more) for batch, of in epochs.items() for more in (0, 0, 0)]

    assert [each.region for each in found(*runs).points] == [None, "perfect", "diminishing", "none"]


def test_one_run_of_a_batch_determines_no_region() -> None:
    assert [each.region for each in found(trained(16, 8), trained(32, 8)).points] == [None, "not determined"]


def test_the_best_batch_needs_the_least_seconds() -> None:
    runs = [
        trained(batch, epochs, rate)
        for batch, epochs, rate in ((16, 8, 500.0), (32, 8, 900.0), (64, 9, 1600.0), (128, 30, 1700.0))
        for _ in range(3)
    ]

    result = found(*runs)

    assert result.best == 64 and result.equal_to_best == ()
    assert result.points[2].seconds == pytest.approx(9 * 1024 / 1600)
    assert [times for times, _ in result.doublings] == [2, 4, 8]
    assert all(1 <= factor <= times for times, factor in result.doublings)


def test_a_batch_that_missed_the_target_has_no_seconds() -> None:
    result = found(trained(16, 4), trained(32, 4), trained(64, None))

    assert (result.points[2].steps, result.points[2].not_reached, result.points[2].seconds) == ((), 1, None)
    assert result.best in (16, 32)
    by = "batch.default"
    nothing = study([trained(16, None, options={by: "16"}), trained(32, None, options={by: "32"})], OUT, by)
    assert "No batch reached a quality of 0.9" in "\n".join(sentences(nothing))


def test_another_run_of_a_batch_is_within_its_interval() -> None:
    runs = [trained(64, epochs) for epochs in (9, 10, 11)]
    low, high = found(*runs, trained(32, 10)).points[1].next_run_seconds or (0.0, 0.0)

    assert low < 9 * 1.024 < 11 * 1.024 < high


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([{"trainer.learning_rate": "0.1"}] * 2, "0.1 at every batch, linear decay"),
        ([{"trainer.learning_rate": "0.1"}, {"trainer.learning_rate": "0.2"}], "0.1 at 16, 0.2 at 32, linear decay"),
        (
            [{"trainer.learning_rate": "0.1", "trainer.scale_learning_rate": "yes", "trainer.reference_batch": "256"}]
            * 2,
            "in proportion to the global batch, 0.1 at 256 images, with warm-up and linear decay",
        ),
    ],
)
def test_the_learning_rate_is_described(options: list[dict[str, str]], text: str) -> None:
    runs = [
        trained(batch, 4, options={"trainer.rate": "linear", **own})
        for batch, own in zip((16, 32), options, strict=True)
    ]

    assert found(*runs).learning_rates == text


def test_runs_without_one_target_have_no_batch_study() -> None:
    assert batch_study([steady(1, 10.0), steady(1, 10.0, batch=64)], OUT) is None
    assert batch_study([trained(16, 4), trained(16, 4)], OUT) is None


def test_batches_are_studied_alone() -> None:
    by, rate = "batch.default", "trainer.learning_rate"
    runs = [
        trained(batch, 4, options={by: str(batch), rate: value}, started=batch)
        for batch in (16, 32)
        for value in ("0.1", "0.2")
    ]

    assert study(runs[::2], OUT, by).batch is not None
    assert study(runs, OUT, by).batch is None and study(runs, OUT, rate).batch is None
