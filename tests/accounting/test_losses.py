"""Each part of the loss waterfall against a generated truth, and the sum of the parts over runs with many faults.

One part is a remainder, so that a correct sum alone proves nothing: here each part is checked by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.accounting.accelerator_time import accelerator_time, availability, spans
from aiperf.accounting.losses import MEANINGS, AcceleratorPeak, Waterfall, waterfall
from aiperf.accounting.score import score
from aiperf.accounting.work_log import WorkLog, window, work_log
from aiperf.journal.events import AnyEvent, RunStarted
from aiperf.journal.journal import NAME, read
from tests.accounting.test_time_breakdown import LENGTH, RANKS, Life, lives, together
from tests.audit.random_runs import play, random_case
from tests.builders.journal import ended, finished, interval, one_trial, prepared

PEAK = 1e4
"""FLOPS of one accelerator. An interval has 10 training images of 300 operations and 5 validation images of 90."""
UNKNOWN = AcceleratorPeak(None, None)
OF_BREAKDOWN = {
    "start": "start-up",
    "compile": "compiling",
    "gap": "search",
    "lost": "lost attempts",
    "checkpoint": "checkpoints",
    "validation": "evaluation",
}
"""Lines of the time breakdown with another name in the waterfall."""


def fallen(kept: WorkLog, top: AcceleratorPeak, planned: int | None = None) -> Waterfall | None:
    """Return the waterfall of a work log's valid window."""
    inside = window(kept)
    found = score(kept).flops_per_second
    there = availability(kept, inside, inside.end, found).planned if planned is None else planned
    return waterfall(accelerator_time(kept, inside), there, found, top)


def from_the_beginning(events: Sequence[AnyEvent]) -> WorkLog:
    """Return the work log of a run with a window from its start to its end."""
    first, *rest = events
    assert isinstance(first, RunStarted)
    return work_log([msgspec.structs.replace(first, warmup_seconds=0.0), *rest])


def adds_up(found: Waterfall, result: float) -> None:
    """Check that the bars are contiguous from the top to the score and that their amounts and seconds sum to the difference."""
    assert found.losses[-1].after_flops_per_second == result == found.score_flops_per_second, "to the last digit"
    edges = [found.top_flops_per_second, *(loss.after_flops_per_second for loss in found.losses)]
    assert [loss.before_flops_per_second for loss in found.losses] == edges[:-1]
    lost = sum((Fraction(loss.flops_per_second) for loss in found.losses), Fraction(0))
    rounding = len(found.losses) * math.ulp(found.top_flops_per_second)
    assert abs(Fraction(found.top_flops_per_second) - lost - Fraction(result)) <= rounding
    spent = math.fsum(loss.accelerator_seconds for loss in found.losses)
    assert spent + found.score_accelerator_seconds == pytest.approx(found.accelerator_seconds, rel=1e-12)
    for loss in found.losses:
        assert (loss.flops_per_second < 0) == (loss.why_negative is not None), loss
        assert math.isfinite(loss.accelerator_seconds)
    named = [loss.name for loss in found.losses]
    assert named == [name for name in MEANINGS if name in named], "always in one order"


@settings(max_examples=40, deadline=None)
@given(lives(0, done_again=True), lives(1, done_again=True), st.integers(0, 3))
def test_every_part_equals_the_time_spent_on_it(first: Life, second: Life, beyond: int) -> None:
    kept = from_the_beginning(together(first, second))

    found = fallen(kept, AcceleratorPeak(PEAK, "a peak"), planned=2 * RANKS + beyond)

    assert found is not None
    adds_up(found, score(kept).flops_per_second or 0.0)
    truth = {
        OF_BREAKDOWN.get(name, name): RANKS * (first.truth.get(name, 0.0) + second.truth.get(name, 0.0))
        for name in first.truth | second.truth
    }
    training, evaluation = truth.pop("training", 0.0), truth.pop("evaluation", 0.0)
    rows = kept.intervals
    images = float(rows.training_images[rows.flops > 0].sum())
    truth["clocks and kernels"] = training - images * 300 / PEAK
    truth["evaluation"] = evaluation - images / 2 * 90 / PEAK
    truth["never there"] = beyond * LENGTH
    for loss in found.losses:
        assert loss.accelerator_seconds == pytest.approx(truth.pop(loss.name, 0.0), abs=1e-6), loss.name
    assert not any(truth.values()), "no time was spent so that has no part"
    assert found.top_flops_per_second == PEAK * (2 * RANKS + beyond)


@settings(max_examples=25, deadline=None)
@given(lives(0, done_again=True), lives(1, done_again=True))
def test_spans_of_a_worker_match_its_activities_without_overlap(first: Life, second: Life) -> None:
    kept = from_the_beginning(together(first, second))

    found = spans(kept, window(kept))

    for life in (first, second):
        by_activity: dict[str, float] = {}
        until = 0.0
        for span in found[life.worker]:
            assert until <= span.start < span.end
            until = span.end
            by_activity[span.activity] = by_activity.get(span.activity, 0.0) + span.end - span.start
        of = {
            "gap": "search",
            "lost": "lost attempts",
            "start": "start-up",
            "compile": "start-up",
            "done again": "done again",
        }
        truth: dict[str, float] = {}
        for name, spent in life.truth.items():
            if name != "absent":
                activity = of.get(name, "epochs")
                truth[activity] = truth.get(activity, 0.0) + spent
        assert by_activity == pytest.approx({name: spent for name, spent in truth.items() if spent > 0}, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(lives(0, done_again=True), lives(1, done_again=True), st.floats(0.5, 1.2))
def test_known_clock_only_splits_steps_into_clocks_and_kernels(first: Life, second: Life, clock: float) -> None:
    kept = from_the_beginning(together(first, second))

    whole, parted = fallen(kept, AcceleratorPeak(PEAK, "a peak")), fallen(kept, AcceleratorPeak(PEAK, "a peak", clock))

    assert whole is not None and parted is not None
    adds_up(parted, score(kept).flops_per_second or 0.0)
    before = {loss.name: loss.flops_per_second for loss in whole.losses}
    after = {loss.name: loss.flops_per_second for loss in parted.losses}
    both = before.pop("clocks and kernels")
    clocks, kernels = after.pop("clocks"), after.pop("kernels")
    assert after == before
    assert clocks + kernels == pytest.approx(both)
    rows = kept.intervals
    steps = (rows.clock("busy") - rows.clock("communication") - rows.clock("validation"))[rows.wasted == 0]
    assert clocks * LENGTH == pytest.approx((1 - clock) * PEAK * RANKS * math.fsum(steps.tolist()), abs=1e-6)


@pytest.mark.parametrize("seed", range(24))
def test_the_parts_of_a_run_full_of_faults_add_up_to_its_score(seed: int, tmp_path: Path) -> None:
    """Random faults: workers that die, join late or hang, drivers that die and are resumed."""
    (tmp_path / NAME).write_bytes(play(random_case(seed)).journal)
    kept = work_log(read(tmp_path))
    result = score(kept).flops_per_second

    for top in (UNKNOWN, AcceleratorPeak(4e9, "a peak"), AcceleratorPeak(4e9, "a peak", 0.9)):
        found = fallen(kept, top)

        if not result:
            assert found is None or found.is_peak
            continue
        assert found is not None
        adds_up(found, result)
        assert found.is_peak == (top.flops is not None)
        may_be_more = {"evaluation", "unexplained", *(() if top.flops is None else ("kernels", "clocks and kernels"))}
        assert {loss.name for loss in found.losses if loss.flops_per_second < 0} <= may_be_more


def test_without_a_peak_the_top_is_the_rate_of_training_steps() -> None:
    # two ranks, 90 s of window: 40 s of steps make 10 images of 300 operations, the rest is in no attempt
    steps = msgspec.structs.replace(interval(0, 10.0, 50.0, 10), busy_seconds=40.0)
    kept = work_log([*one_trial(prepared(0, 10.0), steps), finished(0, 50.0, 0.5), ended()])

    found = fallen(kept, UNKNOWN)

    assert found is not None and not found.is_peak
    assert found.flops_per_accelerator == pytest.approx(3000 / 80)
    assert found.top_flops_per_second == pytest.approx(2 * 3000 / 80)
    assert not {"clocks", "kernels", "clocks and kernels"} & {loss.name for loss in found.losses}
    assert [(loss.name, loss.accelerator_seconds) for loss in found.largest] == [("search", 100.0)]


def test_no_waterfall_without_training_and_without_a_peak() -> None:
    assert fallen(work_log(one_trial(ended())), UNKNOWN) is None
    with_peak = fallen(work_log(one_trial(ended())), AcceleratorPeak(PEAK, "a peak"))
    assert with_peak is not None and with_peak.score_flops_per_second == 0.0
    assert fallen(work_log(one_trial()), AcceleratorPeak(PEAK, "a peak")) is None, "the warm-up is not over"


def test_steps_above_their_peak_have_a_reason() -> None:
    steps = msgspec.structs.replace(interval(0, 10.0, 50.0, 10), busy_seconds=40.0)
    kept = work_log([*one_trial(prepared(0, 10.0), steps), finished(0, 50.0, 0.5), ended()])

    found = fallen(kept, AcceleratorPeak(1.0, "a peak far too low"))

    assert found is not None
    kernels = next(loss for loss in found.losses if loss.name == "clocks and kernels")
    assert kernels.flops_per_second < 0
    assert kernels.why_negative is not None and "faster than the peak" in kernels.why_negative


def test_attempt_running_at_the_end_is_not_counted_as_a_failure() -> None:
    steps = msgspec.structs.replace(interval(0, 10.0, 96.0, 10), busy_seconds=86.0)
    kept = work_log([*one_trial(prepared(0, 10.0), steps), ended()])

    found = fallen(kept, UNKNOWN)

    assert found is not None
    lost = {loss.name: loss.accelerator_seconds for loss in found.losses}
    assert (lost["end of the run"], lost["lost attempts"]) == (8.0, 0.0)
