"""Cached rows equal recomputed rows."""

import pytest

from benchmarks import proposal_speed
from searchers.history import History

OBSERVATIONS = proposal_speed.invented(40)


def example() -> History:
    history = History(proposal_speed.space())
    history.observe(OBSERVATIONS)
    return history


def test_cached_descriptors_equal_computed_ones_exactly() -> None:
    history = example()
    requested = [3, 50, 3, 7], [7, 8], list(range(80)), [79, 0]

    for numbers in requested:
        afresh = history.places.descriptors([example().outline(number) for number in numbers])
        assert history.descriptors(numbers).tobytes() == afresh.tobytes()


def test_an_unknown_trial_has_no_row() -> None:
    with pytest.raises(KeyError):
        example().descriptors([0, 80])
