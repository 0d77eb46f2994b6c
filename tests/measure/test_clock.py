"""Offset of a node's clock from the head's, for any network delay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiperf.measure.clock import RoundTrip, offset, reading

WAYS = st.floats(0.0, 2.0)


@given(st.floats(-1e4, 1e4), st.lists(st.tuples(WAYS, WAYS, WAYS), min_size=1, max_size=8))
def test_the_true_offset_lies_within_what_is_said(true: float, ways: list[tuple[float, float, float]]) -> None:
    """`ways`: there, at the node, and back."""
    now, trips = 1.7e9, []
    for there, thinking, back in ways:
        received = now + there + true
        trips.append(RoundTrip(now, received, received + thinking, now + there + thinking + back))
        now += 10.0

    said = offset(reading(trips))

    assert abs(said.seconds - true) <= said.error + 2e-6
    assert said.error <= min((there + back) / 2 for there, _, back in ways) + 2e-6
