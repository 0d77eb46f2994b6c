"""Ratios by an option: laws of the geometric mean, intervals of rounds, quality, and refusals."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.errors import BadConfiguration, CannotCompare
from aiperf.page.terminal import parts_lines
from aiperf.scaling.option_ratios import MACHINE, option_ratios
from aiperf.scaling.point import Point, RankMachine
from aiperf.scaling.scale_text import parts, sentences, warnings
from aiperf.scaling.study import study
from tests.builders.journal import evaluated
from tests.builders.scaling_point import steady

OUT = Fraction(0)
OPTION = "trainer.precision"
rates = st.floats(1.0, 1e6)


def run(value: str, rate: float, started: float, quality: float = 0.9, **others: str) -> Point:
    """Run with a value of OPTION and of other options."""
    options = {OPTION: value, **{name.replace("__", "."): each for name, each in others.items()}}
    return steady(1, rate, started=started, options=options, epochs=(evaluated(0, 1.0, quality),))


@given(rates, rates, rates, rates)
def test_the_ratio_is_the_geometric_mean_of_the_blocks(a: float, b: float, c: float, d: float) -> None:
    runs = [
        run("fp32", a, 0, start="x"),
        run("bf16", b, 1, start="x"),
        run("fp32", c, 2, start="y"),
        run("bf16", d, 3, start="y"),
    ]

    first, other = option_ratios(runs, OPTION, OUT).values

    assert first.ratio == pytest.approx(1.0)
    assert other.ratio == pytest.approx((b / a * d / c) ** 0.5)
    assert other.block_ratios == {"start=x": pytest.approx(b / a), "start=y": pytest.approx(d / c)}


@given(st.lists(st.tuples(rates, st.floats(1.0, 4.0)), min_size=6, max_size=9))
def test_drift_of_the_machine_leaves_ratios_of_rounds(rounds: list[tuple[float, float]]) -> None:
    runs = [
        point
        for number, (rate, factor) in enumerate(rounds)
        for point in (run("fp32", rate, 2 * number), run("bf16", rate * factor, 2 * number + 1))
    ]

    other = option_ratios(runs, OPTION, OUT).values[1]

    factors = sorted(factor for _, factor in rounds)
    assert other.interval is not None and other.rounds == len(rounds)
    assert factors[0] * (1 - 1e-9) <= other.interval[0] <= other.interval[1] <= factors[-1] * (1 + 1e-9)


def test_a_difference_of_quality_is_tested() -> None:
    alike = [run(value, 100.0, n, 0.9 + 0.001 * (n % 3)) for n, value in enumerate(["fp32", "bf16"] * 3)]
    worse = [run(value, 100.0, n, 0.9 - 0.2 * (n % 2) + 0.001 * n) for n, value in enumerate(["fp32", "bf16"] * 3)]

    for runs, is_real in ((alike, False), (worse, True)):
        changed = option_ratios(runs, OPTION, OUT).values[1].quality_change
        assert changed is not None and changed.is_real == is_real


def test_mfu_uses_the_peak_of_each_precision() -> None:
    slow = steady(1, 100.0, options={OPTION: "fp32"}, machine=RankMachine("cpu", 1e9, None, None))
    fast = steady(1, 200.0, started=1, options={OPTION: "bf16"}, machine=RankMachine("cpu", 4e9, None, None))

    lines = [" ".join(line.split()) for line in parts_lines(parts(study([slow, fast], by=OPTION)))]

    assert lines[2].startswith("fp32 100.0 30.0 % not measured")
    assert lines[3].startswith("bf16 200.0 15.0 %")


def test_options_that_change_together_are_named() -> None:
    together = study([run("fp32", 1, 0, trainer__compile="off"), run("bf16", 2, 1, trainer__compile="on")], OUT, OPTION)

    assert together.ratios is not None and together.ratios.follows == ("trainer.compile",)
    assert "trainer.compile changed together with trainer.precision" in warnings(together)[-1]


def test_machines_are_compared_by_their_model() -> None:
    old, new = (
        steady(1, rate, started=rate, machine=RankMachine(model, peak, bandwidth, None))
        for model, rate, peak, bandwidth in (("v2", 10.0, 1e9, 1e9), ("v3", 18.0, 2.7e9, 1.35e9))
    )

    result = study([old, new], OUT, MACHINE)

    (share,) = result.core_shares
    assert (share.first, share.other) == ("v2", "v3")
    assert share.share is not None and round(100 * share.share, 1) == 50.0
    assert "50.0 % of the old time was bound by the cores and not by the memory" in sentences(result)[4]


@pytest.mark.parametrize(
    ("runs", "option", "error", "message"),
    [
        ([run("fp32", 1, 0)], "trainer.precisoin", BadConfiguration, "found 'trainer.precisoin'.*trainer.precision"),
        ([run("fp32", 1, 0)] * 2, OPTION, CannotCompare, "found trainer.precision=fp32 in all runs"),
        (
            [run("fp32", 1, 0, start="x"), run("bf16", 1, 1, start="x"), run("fp32", 1, 2, start="y")],
            OPTION,
            CannotCompare,
            "found start=y lacks bf16",
        ),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(
    runs: list[Point], option: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        option_ratios(runs, option, OUT)
