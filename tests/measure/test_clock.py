"""Offset of a node's clock from the head's, for any network delay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiperf.measure.probe import RoundTrip, clock_offset, clock_reading

WAYS = st.floats(0.0, 2.0)


@given(st.floats(-1e4, 1e4), st.lists(st.tuples(WAYS, WAYS, WAYS), min_size=1, max_size=8))
def test_the_true_offset_lies_within_the_bounds(true: float, ways: list[tuple[float, float, float]]) -> None:
    """`ways`: seconds of the way out, at the node, and of the way back."""
    now, trips = 1.7e9, []
    for outward, thinking, back in ways:
        received = now + outward + true
        trips.append(RoundTrip(now, received, received + thinking, now + outward + thinking + back))
        now += 10.0

    measured = clock_offset(clock_reading(trips))

    assert abs(measured.seconds - true) <= measured.error + 2e-6
    assert measured.error <= min((outward + back) / 2 for outward, _, back in ways) + 2e-6
