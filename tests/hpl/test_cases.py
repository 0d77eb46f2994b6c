"""Predicted and measured side by side, on outputs that the model itself made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aiperf.errors import BadConfiguration
from aiperf.hpl.cases import as_json, cases, find_binary, fit_bandwidth
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
    assert case.largest_gap is None


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


@pytest.mark.parametrize(("late", "named"), [(0.0, False), (0.004, False), (0.009, False), (0.02, True)])
def test_a_gap_below_the_timers_last_place_names_no_part(late: float, named: bool) -> None:
    made = predict(SYSTEM, 4000, 192, 2, 1)
    timers = timers_of(made)
    timers["laswp"] += late
    timers["update"] += late
    (case,) = cases(
        SystemFile(SYSTEM), [replace(run_of(made, timers=timers), seconds=run_of(made).seconds + late)], "placed"
    )

    assert (case.largest_gap is not None) == ("Largest gap: swap" in case.gap_in_words()) == named
    assert ("No part differs by 0.01 s" in case.gap_in_words()) != named


@pytest.mark.parametrize("factor", [0.01, 3.0])
def test_outputs_that_no_bandwidth_explains_are_refused(factor: float) -> None:
    """Slower than any link, and faster than without a link."""
    made = predict(SYSTEM, 4000, 192, 1, 2)
    run = run_of(made)
    far = replace(run, gflops=run.gflops * factor * (1e-9 if factor < 1 else 1))

    with pytest.raises(BadConfiguration, match=r"node\.bytes_per_second is fitted .*no value explains the outputs"):
        fit_bandwidth(SystemFile(SYSTEM), "node", [far], "placed")


def test_other_programs_are_named_beside_the_figure_that_they_spoil() -> None:
    run = run_of(predict(SYSTEM, 4000, 192, 1, 2))
    quiet, loud = (
        cases(SystemFile(SYSTEM), [run, replace(run, others_share=share)], "placed")[0] for share in (0.04, 0.31)
    )

    assert "Warning" not in quiet.gap_in_words()
    assert "Warning: other programs used up to 31 % of the processors beside these runs." in loud.gap_in_words()


def test_a_program_may_have_arguments_and_a_path_with_spaces(tmp_path: Path) -> None:
    program = tmp_path / "my hpl.sh"
    program.touch(0o755)

    assert find_binary(str(program)) == (str(program.resolve()),)
    assert find_binary(f"'{program}' --dat HPL.dat") == (str(program.resolve()), "--dat", "HPL.dat")
    for wrong in ("no-such-hpl --dat x", "'", ""):
        with pytest.raises(BadConfiguration, match="is not installed"):
            find_binary(wrong)
