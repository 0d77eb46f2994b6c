"""Resources that bound a run: the issue's shares, laws of the formula, and the parts of one run."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.scaling.bound import bound_parts, core_share, core_shares
from aiperf.scaling.point import RankMachine
from morphism import Detector, cost, encode_architecture
from tests.builders.scaling_point import GRAPH, a_point, steady

OUT = Fraction(0)


@given(st.floats(0, 1), st.floats(1.0, 4.0), st.floats(1.3, 4.0))
def test_the_share_inverts_the_time_it_stands_for(share: float, m: float, more: float) -> None:
    """A time of which `share` follows k and the rest m gives this share back."""
    k = m * more
    s = 1 / (share / k + (1 - share) / m)

    found, lacks = core_share(m, k, min(max(s, m), k))

    assert found == pytest.approx(share, abs=1e-9) and lacks == ""


@pytest.mark.parametrize(
    ("m", "k", "s", "lacks"),
    [(1.35, 2.7, 1.2, "outside"), (1.35, 2.7, 3.0, "outside"), (2.0, 2.2, 2.1, "alike, within 20 %")],
)
def test_ratios_that_give_no_share_are_reported(m: float, k: float, s: float, lacks: str) -> None:
    assert core_share(m, k, s)[0] is None and lacks in core_share(m, k, s)[1]


def test_six_rounds_give_an_interval_of_the_share() -> None:
    machines = RankMachine("a", 1e9, 1e9, None), RankMachine("a", 2e9, 1.2e9, None)
    one, two = (
        tuple(steady(1, rate * (1 + 0.01 * n), started=n, machine=machine) for n in range(6))
        for rate, machine in zip((100.0, 150.0), machines, strict=True)
    )

    (found,) = core_shares({"1": one, "2": two}, OUT)
    unknown = {"1": one, "2": tuple(replace(each, machine=replace(each.machine, peak_flops=None)) for each in two)}

    assert found.share is not None and found.interval is not None
    assert found.interval[0] == pytest.approx(found.share) == pytest.approx(found.interval[1])
    assert core_shares(unknown, OUT) == []


@given(st.lists(st.floats(0.001, 100.0), min_size=7, max_size=7))
def test_the_parts_of_a_run_add_up_to_its_time(seconds: list[float]) -> None:
    parts = bound_parts([a_point(1, seconds), a_point(1, seconds[::-1])], OUT)

    assert parts.least_arithmetic is not None and parts.least_memory is not None and parts.least_memory >= 0
    whole = parts.least_arithmetic + parts.least_memory + parts.neither + sum(parts.others.values())
    assert whole == pytest.approx(1.0)


def test_least_arithmetic_is_operations_over_peak() -> None:
    point = steady(1, 50.0)
    operations = cost(GRAPH).forward_flops + cost(GRAPH).backward_flops

    parts, unknown = (
        bound_parts([point], OUT),
        bound_parts([replace(point, machine=RankMachine("a", None, 1e9, None))], OUT),
    )

    assert parts.least_arithmetic == pytest.approx(operations / 1e9 * 50.0)
    assert unknown.least_arithmetic is None and unknown.neither == 1.0


def test_a_detector_has_no_roofline() -> None:
    detector = json.loads(encode_architecture(Detector("faster_rcnn_small", 64, 96)))

    parts = bound_parts([replace(steady(1, 50.0), start_graph=detector)], OUT)

    assert parts.least_arithmetic is None and parts.least_memory is None and parts.neither == 1.0
