"""The script that plants faults in recorded telemetry tells a report that finds them from one that does not."""

import sys

import pytest

from aiperf.run_warning import RunWarning
from benchmarks import telemetry_warnings
from benchmarks.telemetry_warnings import PLANTED, unanswered

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
def test_the_report_of_a_run_finds_all_that_was_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["telemetry_warnings"])

    assert telemetry_warnings.main() == 0
