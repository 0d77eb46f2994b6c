"""Figures of the error beside the regulated score: held-out error, time to a stated error, mean error over time."""

from __future__ import annotations

import math
from dataclasses import asdict

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.accounting.error_figures import error_figures
from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.events import AnyEvent, CheckpointWritten, EpochFinished, Halves
from tests.builders.journal import ended, evaluated, one_trial, started
from tests.builders.second_score import differences
from tools.verify_standalone import Run, figures, parsed

HALF = 25
"""Half of the validation samples of `started`."""


def halved(epoch: int, at: float, even: int, odd: int, half: int = HALF) -> EpochFinished:
    """An evaluation with so many correct samples in each half."""
    halves = Halves(even_correct=even, even_samples=half, odd_correct=odd, odd_samples=half)
    return msgspec.structs.replace(evaluated(0, at, (even + odd) / (2 * half), epoch=epoch), halves=halves)


def of(*evaluations: AnyEvent, stated: float = 0.3) -> dict[str, float | None]:
    return asdict(error_figures(work_log(one_trial(*evaluations, ended())), stated))


def test_each_half_shows_the_error_of_the_choice_by_the_other() -> None:
    found = of(halved(1, 20.0, 20, 10), halved(2, 30.0, 15, 24), halved(3, 40.0, 20, 23))

    assert found["held_out"] == 1 - (10 / HALF + 15 / HALF) / 2


def test_held_out_error_needs_the_halves_of_every_evaluation() -> None:
    assert of(halved(1, 20.0, 20, 10), evaluated(0, 30.0, 0.1, epoch=2))["held_out"] is None
    assert of(evaluated(0, 30.0, 0.1))["held_out"] is None
    late = evaluated(0, 100.5, 0.9, epoch=2)
    assert error_figures(work_log(one_trial(halved(1, 20.0, 20, 10), late)), 0.3).held_out is not None


def test_the_mean_error_weighs_by_time_and_begins_at_1() -> None:
    """The window is 10 to 100 s."""
    found = of(evaluated(0, 40.0, 0.5), evaluated(0, 60.0, 0.3, epoch=2), evaluated(0, 70.0, 0.75, epoch=3))

    assert found["area"] == pytest.approx((30 * 1.0 + 30 * 0.5 + 30 * 0.25) / 90)
    assert of(evaluated(0, 10.0, 0.5))["area"] == 0.5


def test_a_stated_error_is_reached_by_the_first_evaluation_at_or_below() -> None:
    evaluations = [
        evaluated(0, 20.0 + epoch, accuracy, epoch=epoch) for epoch, accuracy in ((1, 0.6), (2, 0.7), (3, 0.9))
    ]

    times = [of(*evaluations, stated=stated)["stated_seconds"] for stated in (0.5, 0.4, 0.3, 0.25, 0.1, 0.05)]

    assert times == [21.0, 21.0, 22.0, 23.0, 23.0, None]


def test_a_detector_has_none_of_the_figures() -> None:
    _, *after = one_trial(evaluated(0, 20.0, 0.9), ended())
    found = error_figures(work_log([started(metric="map50"), *after]), 0.3)

    assert (found.held_out, found.stated_seconds, found.area) == (None, None, None)


correct = st.integers(0, HALF)


@given(
    st.lists(st.tuples(st.floats(2.0, 110.0), correct, correct, st.booleans(), st.booleans()), min_size=1, max_size=12)
)
def test_both_implementations_agree(drawn: list[tuple[float, int, int, bool, bool]]) -> None:
    """With and without halves, sealed in another order than evaluated, and after the declared end."""
    lines: list[AnyEvent] = []
    for epoch, (at, even, odd, has_halves, is_sealed) in enumerate(sorted(drawn), start=1):
        evaluation = halved(epoch, at, even, odd)
        lines.append(evaluation if has_halves else msgspec.structs.replace(evaluation, halves=None))
        if is_sealed:
            lines.append(CheckpointWritten(at=at, trial=0, attempt=1, epoch=epoch, sha256="0" * 64))
    seals = [line for line in lines if isinstance(line, CheckpointWritten)]
    late = [msgspec.structs.replace(seal, at=111.0) for seal in reversed(seals[len(seals) // 2 :])]
    kept = [line for line in lines if not isinstance(line, CheckpointWritten)] if len(seals) > 6 else lines
    events = one_trial(*kept, *(late if len(seals) > 6 else ()), ended(112.0))

    again = Run()
    for event in events:
        again.take(parsed(msgspec.json.encode(event)))

    assert differences(work_log(events), figures(again)) == {}


@pytest.mark.parametrize("is_shared", [False, True], ids=["independent networks", "samples of unequal difficulty"])
def test_the_best_of_all_is_optimistic_and_held_out_is_not(is_shared: bool) -> None:
    """Evaluations with known true errors: the best of 150 on 400 samples looks better than it is, in the mean of 300 runs."""
    draw, runs, half = np.random.default_rng(43), 300, 200
    true = draw.uniform(0.2, 0.25, 150)
    bias, held = np.empty(runs), np.empty(runs)
    for run in range(runs):
        hard = draw.uniform(0.0, 2.0, 2 * half) if is_shared else np.ones(2 * half)
        right = draw.uniform(size=(150, 2 * half)) >= np.outer(true, hard)
        even, odd = right[:, ::2].sum(1), right[:, 1::2].sum(1)
        first, *after = one_trial(*(halved(1 + n, 20.0, int(even[n]), int(odd[n]), half) for n in range(150)), ended())
        assert first == started()
        log = work_log([started(dataset=first.dataset | {"validation_images": 2 * half}), *after])
        error, found = score(log).error, error_figures(log, 0.3).held_out
        assert error is not None and found is not None
        bias[run] = error - true[(even + odd).argmax()]
        held[run] = found - true[[even.argmax(), odd.argmax()]].mean()

    sampling = held.std() / math.sqrt(runs)
    assert bias.mean() < -0.03
    assert abs(held.mean()) < 3 * sampling and sampling < 0.0015
