"""`python -m aiperf standing` as a user types it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from aiperf.report import write
from aiperf.report.facts import Report
from aiperf.system.energy import Energy, EnergyFacts
from aiperf.system.meters import Level
from tests.builders.journal import ended, evaluated, finished, interval, one_trial
from tests.builders.run import folder_of
from tests.rigs.user import User, write_run

LIST = """Rank,Name,Rmax [TFlop/s],Power (kW)
1,First,3,
2,Second,0.000000001,0.002
2,Third,0.000000001,
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of some hundred FLOPS, and a list."""
    (tmp_path / "list.csv").write_text(LIST)
    events = one_trial(
        interval(0, 5.0, 20.0, 100, 50, busy=10.0), evaluated(0, 20.0, 0.9), finished(0, 20.0, 0.9), ended()
    )
    return write_run(tmp_path / "runs" / "real", events)


def test_a_run_gets_its_place_and_neighbours(aiperf: User, run: Path) -> None:
    answer = aiperf("standing", "real", "--list", "list.csv", "--to", "Second", "--json")
    shown = aiperf("standing", "real", "--list", "list.csv", "--to", "Second").out

    (found,) = json.loads(answer.out)["runs"]
    score = json.loads(aiperf("score", "real", "--json").out)["flops_per_second"]
    assert answer.status == 0
    assert found["flops_per_second"] == score < 1e3
    assert found["place"] == {"place": None, "of": 3, "above": "Second", "below": None}
    assert found["ratio"] == pytest.approx(score / 1e3)
    assert found["flops_per_watt"] is None and re.search("FLOPS/W +not given", shown)
    assert "precision and problem differ" in shown and "precision and problem differ" in found["note"]
    assert "below all 3 entries of the list" in shown


def test_measured_power_gives_flops_per_watt_and_level(
    aiperf: User, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_journal = write.report_of

    def with_power(folder: Path) -> Report:
        report = of_journal(folder)
        unknown = (None,) * 6
        energy = Energy("accelerators", 2, 10.0, 1.0, 1.0, *unknown, counter_restarts=0, flops_per_watt=700.0)
        score = replace(report.score, flops_per_second=2e3)
        return replace(report, score=score, energy=EnergyFacts((energy,), Level(1, ()), "sensors inside the nodes"))

    monkeypatch.setattr(write, "report_of", with_power)
    shown = " ".join(aiperf("standing", "real", "--list", "list.csv").out.split())

    assert "2.00 kFLOPS place 2 of 3 entries, after First and before Second" in shown
    assert "700 FLOPS/W place 1 of 1 entries, before Second. Power of accelerators, EEHPC level 1" in shown


def test_simulated_and_invalid_runs_get_no_place(aiperf: User, run: Path, tmp_path: Path) -> None:
    folder_of(tmp_path / "runs", "simulated")
    write_run(tmp_path / "runs" / "short", one_trial(ended(reason="interrupted")))

    answer = aiperf("standing", "simulated", "short", "real", "--list", "list.csv", "--json")
    shown = aiperf("standing", "simulated", "short", "--list", "list.csv")

    simulated, short, real = json.loads(answer.out)["runs"]
    assert answer.status == shown.status == 1
    assert simulated["place"] is short["place"] is short["flops_per_watt"] is None
    assert simulated["lacks"] and short["lacks"] and not real["lacks"]
    assert "no place, because the run is simulated" in shown.out
    assert "no place, because the run has no valid score" in shown.out


def test_a_figure_alone_gets_its_place(aiperf: User, run: Path) -> None:
    shown = aiperf("standing", "--flops", "2e12", "--list", "list.csv", "--to", "First")
    (found,) = json.loads(aiperf("standing", "--flops", "2e12", "--list", "list.csv", "--json").out)["runs"]

    assert shown.status == 0 and "FLOPS/W" not in shown.out
    assert "place 2 of 3 entries, after First and before Second" in shown.out and "0.667 times First" in shown.out
    assert found["place"]["place"] == 2 and found["precision"] is None
    for words in ((), ("--flops", "0"), ("--flops", "inf")):
        assert aiperf("standing", *words, "--list", "list.csv").status == 2
