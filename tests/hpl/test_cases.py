"""Predicted and measured side by side, on outputs that the model itself made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aiperf.errors import BadConfiguration
from aiperf.hpl.cases import as_json, cases, fit_bandwidth
from aiperf.hpl.model import HplLayer, Prediction, System, predict
from aiperf.hpl.output import Measured
from aiperf.hpl.system_file import SystemFile, changed

SYSTEM = System("two", 2, 5e10, (HplLayer("memory", 1, 1e-7, 1e10), HplLayer("node", 2, 1e-6, 2e9)))


def run_of(made: Prediction | None, *, timers: dict[str, float] | None = None) -> Measured:
    assert made is not None
    return Measured(made.n, made.nb, made.p, made.q, made.pmap, made.seconds, made.flops / 1e9, timers or {})


def timers_of(made: Prediction | None) -> dict[str, float]:
    """Return HPL's timers as they would be if the model were exact."""
    assert made is not None
    pivot, swap = made.seconds_of("pivot"), made.seconds_of("swap")
    return {
        "rfact": made.seconds_of("panel") + pivot,
        "mxswp": pivot,
        "update": made.seconds_of("update") + swap,
        "laswp": swap,
    }


def test_exact_model_has_no_difference() -> None:
    made = predict(SYSTEM, 4000, 192, 1, 2)
    (case,) = cases(SystemFile(SYSTEM), [run_of(made, timers=timers_of(made))], "placed")

    assert case.diff == pytest.approx(0, abs=1e-12)
    assert case.largest_gap is not None
    assert case.largest_gap[1] == pytest.approx(case.largest_gap[2])


def test_largest_gap_is_the_planted_part() -> None:
    made = predict(SYSTEM, 4000, 192, 2, 1)
    for timer, part in (("laswp", "swap"), ("mxswp", "pivot")):
        timers = timers_of(made)
        timers[timer] += 3.0
        timers["update" if timer == "laswp" else "rfact"] += 3.0
        slow = replace(run_of(made, timers=timers), seconds=run_of(made).seconds + 3.0)
        (case,) = cases(SystemFile(SYSTEM), [slow], "placed")
        assert case.largest_gap is not None
        assert case.largest_gap[0] == part
        assert f"Largest gap: {part}" in case.gap_in_words()


def test_without_timers_no_part_is_named() -> None:
    (case,) = cases(SystemFile(SYSTEM), [run_of(predict(SYSTEM, 4000, 192, 1, 2))], "placed")

    assert case.measured_parts is None
    assert "no detailed timers" in case.gap_in_words()


def test_equal_runs_form_one_case_with_an_interval() -> None:
    run = run_of(predict(SYSTEM, 4000, 192, 1, 2))
    (case,) = cases(SystemFile(SYSTEM), [run, replace(run, gflops=run.gflops * 1.1)], "placed")

    assert case.gflops == pytest.approx(run.gflops * 1.05)
    assert case.estimate is not None
    assert as_json([case])[0]["measured_gflops"] == [run.gflops, run.gflops * 1.1]


def test_fit_finds_the_bandwidth_of_the_runs() -> None:
    slow = changed(SYSTEM, "node.bytes_per_second", 3.3e8)
    runs = [run_of(predict(slow, n, 192, *grid)) for n in (4000, 8000) for grid in ((1, 2), (2, 1))]
    fitted = fit_bandwidth(SystemFile(SYSTEM), "node", runs, "placed")

    assert fitted.system.layers[1].bytes_per_second == pytest.approx(3.3e8, rel=1e-3)


def test_fit_needs_runs_that_use_the_layer() -> None:
    run = run_of(predict(SYSTEM, 4000, 192, 1, 1))

    with pytest.raises(BadConfiguration, match="no run crosses 'node'"):
        fit_bandwidth(SystemFile(SYSTEM), "node", [run], "placed")
    with pytest.raises(BadConfiguration, match=r"found 'nod\.bytes_per_second'"):
        fit_bandwidth(SystemFile(SYSTEM), "nod", [run], "placed")


def test_grid_beyond_the_system_is_refused() -> None:
    run = replace(run_of(predict(SYSTEM, 4000, 192, 1, 2)), q=4)

    with pytest.raises(BadConfiguration, match="has 2 ranks, but an output has 1 x 4"):
        cases(SystemFile(SYSTEM), [run], "placed")
