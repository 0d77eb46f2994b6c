"""The score equals a sum computed by hand. One training image of trial 0 costs 300 operations, a validation image 90."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.accelerator_time import accelerator_time, time_breakdown
from aiperf.accounting.intervals import Window
from aiperf.accounting.score import curve, regulated, regulated_interval, score
from aiperf.accounting.work_log import window, work_log
from aiperf.journal.events import AnyEvent, BatchReduced, RunResumed, TrialFailed, TrialLost, TrialRejected, WorkerLost
from tests.builders.journal import begun, ended, evaluated, finished, interval, joined, one_trial, prepared, started
from tests.builders.warnings import warnings_of


def resumed(at: float, down: float, stepped: float = 0.0) -> RunResumed:
    return RunResumed(schema=1, at=at, down_seconds=down, clock_stepped_back_seconds=stepped, versions={}, machine={})


def test_the_score_is_the_work_inside_the_window_over_its_length() -> None:
    run = one_trial(interval(0, 20, 30, 100, 50), evaluated(0, 30, 0.9), finished(0, 30, 0.9), ended())

    found = score(work_log(run))

    assert found.flops_per_second == (100 * 300 + 50 * 90) / 90
    assert found.cumulative_flops_per_second == (100 * 300 + 50 * 90) / 100
    assert found.window_seconds == 90
    assert found.valid


def test_an_interval_that_straddles_an_edge_counts_in_proportion() -> None:
    # 6..16 s: six of its ten seconds are after the warm-up. 96..104 s: four of its eight before the end.
    run = one_trial(interval(0, 6, 16, 100), interval(0, 96, 104, 80), ended(104))

    assert score(work_log(run)).flops_per_second == (60 * 300 + 40 * 300) / 90


def test_an_interval_without_length_counts_where_it_lies() -> None:
    before, inside = interval(0, 5, 5, 10), interval(0, 50, 50, 20)

    assert score(work_log(one_trial(before, inside, ended()))).flops_per_second == 20 * 300 / 90


def test_a_window_without_length_has_no_score_and_a_reason() -> None:
    run = one_trial(interval(0, 2, 8, 100, 50), evaluated(0, 8, 0.9), finished(0, 8, 0.9), ended(9, "interrupted"))

    found = score(work_log(run))

    assert found.flops_per_second is None and found.regulated_flops_per_second is None
    assert found.window_seconds == 0 and not found.valid
    assert any("warm-up" in warning.text for warning in warnings_of(run))


def test_epoch_repeated_after_a_loss_counts_once() -> None:
    run = one_trial(
        interval(0, 20, 30, 60),
        TrialLost(at=31, trial=0, attempt=1, reason="killed"),
        begun(0, 32, attempt=2),
        interval(0, 32, 50, 100, 50, attempt=2),
        ended(),
    )

    found = score(work_log(run))

    assert found.flops_per_second == (100 * 300 + 50 * 90) / 90
    assert found.wasted_flops == 60 * 300


def test_an_epoch_finished_before_a_loss_is_not_wasted() -> None:
    run = one_trial(
        interval(0, 20, 30, 100, 50),
        evaluated(0, 30, 0.5),
        TrialLost(at=31, trial=0, attempt=1, reason="killed"),
        begun(0, 32, attempt=2, epoch=2),
        interval(0, 32, 50, 100, 50, attempt=2, epoch=2),
        ended(),
    )

    found = score(work_log(run))

    assert found.flops_per_second == 2 * (100 * 300 + 50 * 90) / 90
    assert found.wasted_flops == 0


def test_unfinished_epoch_that_is_not_repeated_counts() -> None:
    run = one_trial(interval(0, 20, 30, 60), TrialLost(at=31, trial=0, attempt=1, reason="killed"), ended())

    assert score(work_log(run)).flops_per_second == 60 * 300 / 90


def test_an_epoch_begun_again_with_a_smaller_batch_counts_once() -> None:
    run = one_trial(
        interval(0, 20, 30, 60),
        BatchReduced(at=30, trial=0, attempt=1, from_batch_size=32, to_batch_size=24),
        interval(0, 30, 50, 100, 50),
        ended(),
    )

    found = score(work_log(run))

    assert found.flops_per_second == (100 * 300 + 50 * 90) / 90
    assert found.wasted_flops == 60 * 300


def test_down_time_of_a_killed_driver_is_in_the_denominator() -> None:
    run = one_trial(
        interval(0, 20, 30, 100, 50),
        resumed(70, 40.0),
        joined(1, 71),
        begun(0, 72, attempt=2, worker=1, epoch=2),
        interval(0, 72, 80, 100, 50, attempt=2, epoch=2, worker=1),
        ended(),
    )

    found = score(work_log(run))

    assert found.flops_per_second == 2 * (100 * 300 + 50 * 90) / 90
    assert any("down for 40 s" in warning.text for warning in warnings_of(run))


def test_only_unanswered_requests_are_a_warning() -> None:
    lost = [TrialRejected(at=3.0, number=number, reason="its generator died", by="generator") for number in (1, 2)]
    refused = TrialRejected(at=3.0, number=3, reason="over the budget", by="check")

    warnings = warnings_of(one_trial(interval(0, 20, 30, 100), *lost, refused, ended()))

    assert [warning for warning in warnings if "without an answer: 2 (the generator died" in warning.text]
    assert not any("without an answer" in warning.text for warning in warnings_of(one_trial(refused, ended())))


def test_wall_clock_step_back_is_a_warning_and_shortens_nothing() -> None:
    run = one_trial(interval(0, 20, 30, 100), resumed(30, 0.0, stepped=12.5), ended())

    assert score(work_log(run)).window_seconds == 90
    assert any("12.5 s" in warning.text for warning in warnings_of(run))


def test_error_is_at_least_half_an_image_or_undefined() -> None:
    perfect = one_trial(interval(0, 20, 30, 100, 50), evaluated(0, 30, 1.0), ended())

    assert score(work_log(perfect)).error == 1 / 100
    assert score(work_log(one_trial(interval(0, 20, 30, 100), ended()))).error is None


def test_evaluation_after_the_declared_end_does_not_count() -> None:
    # received while the driver was ending, or after a late resume
    run = one_trial(
        interval(0, 20, 30, 100, 50), evaluated(0, 100.0, 0.5), evaluated(0, 100.5, 0.9, epoch=2), ended(101)
    )

    kept = work_log(run)

    assert score(kept).error == 0.5
    assert curve(kept)[-1].error == 0.5
    assert score(work_log(run[:-3])).error is None


moments = st.floats(2.0, 130.0)


@given(
    st.lists(st.tuples(moments, st.floats(0.0, 1.0)), max_size=12),
    st.lists(st.tuples(moments, st.floats(0.0, 9.0), st.integers(0, 100)), min_size=1, max_size=8),
    st.floats(20.0, 130.0),
)
@settings(deadline=None)
def test_the_curve_ends_where_the_score_stands_to_the_last_digit(
    evaluations: list[tuple[float, float]], works: list[tuple[float, float, int]], end: float
) -> None:
    events = [evaluated(0, at, accuracy, epoch=index + 1) for index, (at, accuracy) in enumerate(sorted(evaluations))]
    work = [interval(0, at, at + length, images) for at, length, images in works]
    journal: list[AnyEvent] = sorted([*events, *work], key=lambda event: event.at)
    journal = [event for event in journal if event.at <= end]
    kept = work_log(one_trial(*journal, ended(end, "duration" if end >= 100 else "interrupted")))

    found, last = score(kept), curve(kept)[-1]

    counted = [event.accuracy for event in events if event.at <= min(100.0, end)]
    assert found.error == (max(1.0 - max(counted), 0.01) if counted else None)
    assert (last.error, last.flops_per_second, last.regulated_flops_per_second, last.cumulative_flops_per_second) == (
        found.error,
        found.flops_per_second,
        found.regulated_flops_per_second,
        found.cumulative_flops_per_second,
    )


@pytest.mark.parametrize(("error", "factor"), [(0.30, 1.204), (0.25, 1.386)])
def test_the_regulated_score_follows_equation_3(error: float, factor: float) -> None:
    found = score(work_log(one_trial(interval(0, 20, 30, 100, 50), evaluated(0, 30, 1 - error), ended())))

    assert found.flops_per_second is not None and found.regulated_flops_per_second is not None
    assert found.regulated_flops_per_second / found.flops_per_second == pytest.approx(factor, abs=5e-4)


def test_a_live_score_ends_at_the_requested_time() -> None:
    assert score(work_log(one_trial(interval(0, 20, 30, 90))), at=40.0).flops_per_second == 90 * 300 / 30


def test_lost_worker_is_absent_in_busy_share_and_breakdown() -> None:
    run = [
        *one_trial(interval(0, 10, 55, 100, busy=45.0)),
        WorkerLost(at=55, worker=0, reason="power"),
        ended(),
    ]

    kept = work_log(run)
    lines = {line.name: line.seconds for line in time_breakdown(accelerator_time(kept, window(kept))).lines}

    assert score(kept).busy_share == pytest.approx(0.5)
    assert lines["training"] == pytest.approx(90)  # two ranks of 45 s
    assert lines["absent"] == pytest.approx(90)


def test_each_line_of_the_time_breakdown_has_its_own_clock() -> None:
    run = one_trial(
        prepared(0, 6.0, compile_seconds=1.0),
        interval(0, 6, 40, 100, busy=34.0),
        TrialLost(at=43, trial=0, attempt=1, reason="killed"),
        begun(0, 45, attempt=2),
        prepared(0, 46.0, attempt=2),
        interval(0, 46, 60, 100, attempt=2, busy=14.0),
        finished(0, 61, 0.5),
        ended(),
    )
    kept = work_log(run)

    lines = {line.name: line.seconds for line in time_breakdown(accelerator_time(kept, Window(0.0, 100.0))).lines}

    assert lines["start"] == pytest.approx(2 * (3 + 1))
    assert lines["compile"] == pytest.approx(2 * 1)
    assert lines["lost"] == pytest.approx(2 * 3)
    assert lines["gap"] == pytest.approx(
        2 * (2 + 2 + 40)
    )  # before the first order, after the loss, after the last image
    assert lines["training"] == pytest.approx(2 * 48)
    assert lines["unexplained"] == pytest.approx(0, abs=1e-9)


def test_time_not_covered_by_a_clock_is_unexplained() -> None:
    kept = work_log(one_trial(prepared(0, 2.0), interval(0, 2, 100, 100, busy=90.0), ended()))

    lines = {line.name: line.seconds for line in time_breakdown(accelerator_time(kept, Window(0.0, 100.0))).lines}

    assert lines["unexplained"] == pytest.approx(2 * 8)


spans = st.tuples(st.floats(2, 99), st.floats(0.01, 20), st.integers(0, 1000))


@given(st.lists(spans, min_size=1, max_size=20), st.floats(0, 50))
def test_lines_add_up_and_windows_add_up(drawn: list[tuple[float, float, int]], cut: float) -> None:
    at, events = 2.0, []
    for _, length, images in drawn:
        events.append(interval(0, at, at + length, images, busy=length / 2))
        at += length
    kept = work_log(
        [
            *one_trial(*events)[0:0],
            started(duration=at + 1, warmup=min(cut, at)),
            *one_trial(*events)[1:],
            ended(at + 1),
        ]
    )
    inside = window(kept)

    entries = time_breakdown(accelerator_time(kept, inside))
    found = score(kept)

    assert math.isclose(sum(line.seconds for line in entries.lines), entries.whole_seconds, rel_tol=1e-9)
    assert found.flops_per_second is not None
    total = sum(images for _, _, images in drawn) * 300
    assert found.flops_per_second * inside.seconds <= total * (1 + 1e-12)
    assert curve(kept)[-1].cumulative_flops_per_second == pytest.approx(total / (at + 1), rel=1e-9)


def test_run_without_a_finished_starting_network_has_a_warning() -> None:
    untrained = "no trial of the starting network finished"
    failed = one_trial(TrialFailed(at=9, trial=0, reason="out of memory even at batch 4"), ended())
    done = one_trial(evaluated(0, 8, 0.5), finished(0, 9, 0.5), ended())

    assert untrained in [warning.text for warning in warnings_of(failed)]
    assert untrained not in [warning.text for warning in warnings_of(done)]


@pytest.mark.parametrize("samples", [360, 2000])
@pytest.mark.parametrize("true_error", [0.02, 0.0667, 0.3])
def test_the_regulated_interval_covers_in_95_of_100_samples(samples: int, true_error: float) -> None:
    """Exact binomial probabilities of the errors. Wilson's interval varies around 95 % with the discrete count."""
    truth, covered = regulated(1.0, true_error), 0.0
    for wrong in range(1, samples):
        low, high = regulated_interval(1.0, wrong / samples, samples)
        logarithm = math.lgamma(samples + 1) - math.lgamma(wrong + 1) - math.lgamma(samples - wrong + 1)
        chance = math.exp(logarithm + wrong * math.log(true_error) + (samples - wrong) * math.log1p(-true_error))
        covered += chance * (low <= truth <= high)
    assert 0.925 <= covered <= 0.975


@given(st.integers(1, 100_000), st.floats(0.0, 1.0))
def test_the_regulated_interval_holds_the_regulated_score(samples: int, share: float) -> None:
    error = max(round(share * samples) / samples, 1 / (2 * samples))
    low, high = regulated_interval(1.0, error, samples)

    assert (
        0.0 <= low <= regulated(1.0, error) * (1 + 1e-12) + 1e-12
        and regulated(1.0, error) <= high * (1 + 1e-12) + 1e-12
    )
