"""Cached rows equal recomputed rows, and the cache is bounded."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import proposal_speed
from searchers import History, UnknownTrial, distance
from searchers.distance import Array, TrialRows

OBSERVATIONS = proposal_speed.invented(40)


def example() -> History:
    history = History(proposal_speed.space())
    history.tell(OBSERVATIONS)
    return history


def test_cached_descriptors_equal_computed_ones_exactly() -> None:
    history = example()
    requested = [3, 50, 3, 7], [7, 8], list(range(80)), [79, 0]

    for numbers in requested:
        afresh = history.places.descriptors([example().outline(number) for number in numbers])
        assert history.descriptors(numbers).tobytes() == afresh.tobytes()


def test_an_unknown_trial_has_no_row() -> None:
    with pytest.raises(UnknownTrial, match="is none of"):
        example().descriptors([0, 80])


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=20), st.integers(1, 20))
def test_forgetting_changes_no_row_and_keeps_the_bound(requested: list[list[int]], remembered: int) -> None:
    def made(numbers: Sequence[int]) -> Array:
        return np.array([[number, number**2] for number in numbers], dtype=np.float64).reshape(len(numbers), 2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distance, "ROWS_REMEMBERED", remembered)
        kept = TrialRows(2)
        for numbers in requested:
            if missing := kept.missing(numbers):
                kept.keep(missing, made(missing))
            assert (kept.of(numbers) == made(numbers)).all()
            assert len(kept) <= max(remembered, *[len(set(numbers)) for numbers in requested])
            kept.of(numbers)[:] = -1  # a copy: a reader may change it
