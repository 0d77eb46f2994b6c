"""Tests of the check of ends by `schedule.stop=converged`: chosen ends and missing ends are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from aiperf.journal.journal import NAME
from aiperf.verify import Finding
from aiperf.verify.lines import read_lines
from tests.builders.forged_journal import Line, lines_of, write
from tests.simulate.test_converged import RULE, conf, simulated
from tests.verify.forging import configure


@pytest.fixture(scope="module")
def converged(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    """Simulate a run that ended with a converged score."""
    folder = tmp_path_factory.mktemp("converged") / "run"
    simulated(folder, conf())
    return lines_of(folder / NAME)


def found_in(folder: Path, lines: list[Line]) -> list[Finding]:
    checks = {check.name: check for check in read_lines(write(folder, lines) / NAME).checked}
    return list(checks["convergence"].findings)


def changed(lines: list[Line], change: Callable[[list[Line]], object]) -> list[Line]:
    copied: list[Line] = json.loads(json.dumps(lines))
    change(copied)
    return copied


def test_an_end_after_convergence_of_the_score_is_sound(converged: list[Line], tmp_path: Path) -> None:
    assert converged[-1]["reason"] == "converged"

    assert found_in(tmp_path, converged) == []


def test_an_end_before_the_score_had_come_to_rest_is_found(converged: list[Line], tmp_path: Path) -> None:
    at = converged[-1]["at"] - RULE.least_seconds / 10 - 1.0
    cut = [line for line in converged[:-1] if line["at"] <= at]

    (finding,) = found_in(tmp_path, [*cut, {**converged[-1], "at": at}])

    assert finding.certainty == "contradiction" and "it ended as converged at" in finding.found


def test_an_end_by_a_precision_that_was_not_reached_is_found(converged: list[Line], tmp_path: Path) -> None:
    def tighten(lines: list[Line]) -> None:
        configure(lines, lambda config: config["schedule"].update(stop_precision=1e-4))

    (finding,) = found_in(tmp_path, changed(converged, tighten))

    assert "allowed 0.01 %" in finding.found


def test_an_end_that_the_configuration_does_not_know_is_found(converged: list[Line], tmp_path: Path) -> None:
    def declare(lines: list[Line]) -> None:
        configure(lines, lambda config: config["schedule"].update(stop="duration"))

    (finding,) = found_in(tmp_path, changed(converged, declare))

    assert "schedule.stop=duration" in finding.found


@pytest.mark.slow
def test_a_run_continued_after_convergence_contradicts(tmp_path: Path) -> None:
    asked = conf()
    longer = replace(asked, schedule=replace(asked.schedule, stop="duration", duration_seconds=4 * 3600.0))
    simulated(tmp_path / "run", longer)
    lines = lines_of(tmp_path / "run" / NAME)
    configure(lines, lambda config: config["schedule"].update(stop="converged"))

    found = found_in(tmp_path, lines)

    assert found and all("had converged at" in finding.found for finding in found)
