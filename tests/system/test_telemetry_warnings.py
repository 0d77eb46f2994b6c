"""Faults of accelerators appear as warnings in the report, and nothing else does: planted and found."""

from pathlib import Path

import pytest

from aiperf.run_warning import RunWarning
from tests.builders.telemetry import PLANTED, unanswered, warnings_of_a_run

HOT = "1 of 39 accelerators reached 85 °C; hottest NVIDIA A100 #{index} of worker 1 on 'node01', 91 °C"


def test_a_report_without_warnings_misses_every_fault() -> None:
    assert len(unanswered([])) == len(PLANTED)


def test_a_warning_of_a_healthy_accelerator_is_a_problem() -> None:
    rightly = unanswered([RunWarning(HOT.format(index=2), "warning", "cool it")])
    wrongly = unanswered([RunWarning(HOT.format(index=3), "warning", "cool it")])
    invented = unanswered([RunWarning("3 of 39 accelerators melted", "critical", "cool it")])

    assert len(rightly) == len(PLANTED) - 1
    assert len(wrongly) == len(PLANTED) and any("healthy accelerator" in problem for problem in wrongly)
    assert invented[-1] == "warned of without cause: 3 of 39 accelerators melted"


@pytest.mark.slow
def test_the_report_of_a_run_finds_all_that_was_planted(tmp_path: Path) -> None:
    assert unanswered(warnings_of_a_run(tmp_path)) == []
