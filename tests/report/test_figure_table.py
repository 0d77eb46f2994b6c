"""The table of figures: names and titles are unique, and the command line knows them."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.cli.verbs.results.compare import add_arguments
from aiperf.journal.events import RunStarted, TrialProposed, TrialStarted
from aiperf.journal.journal import read
from aiperf.report.facts import Report
from aiperf.report.figures import FIGURES, RANKED, by_name, values
from aiperf.report.sections.score import result
from aiperf.report.write import closing_lines, report_of
from morphism import cost, start
from morphism.cost import padded_flops
from tests.builders.run import GOLDEN, folder_of, run_of


def test_every_name_and_title_belongs_to_one_figure() -> None:
    names = [(name, figure) for figure in FIGURES for name in {figure.name, figure.title}]

    assert all(by_name(name) is figure for name, figure in names)
    assert len({name for name, _ in names}) == len(names)


def test_compare_takes_names_and_former_names_of_the_table() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    for name in ("score", "regulated", "error", "busy", "mfu", "flops-per-watt", "MFU", "FLOPS/W"):
        assert parser.parse_args(["RUN", "--metric", name]).metric == by_name(name).name


@pytest.mark.parametrize("name", ["resumed-v4", "resumed-v5"])
def test_reach_and_padding_are_those_of_the_journals_networks(name: str) -> None:
    """Counted anew from the events alone, over the whole run instead of its window."""
    journal = GOLDEN / f"{name}.jsonl"
    report, events = report_of(journal), list(read(journal))
    (first,) = (event for event in events if isinstance(event, RunStarted))
    proposed = {event.number: event for event in events if isinstance(event, TrialProposed)}
    begun: dict[int, float] = {}
    for event in events:
        if isinstance(event, TrialStarted):
            begun.setdefault(event.trial, event.at)
    largest = max(proposed[number].forward_flops for number in begun)
    after = min(at for number, at in begun.items() if proposed[number].forward_flops == largest)

    figures = values(report)

    assert figures["budget-reached"] == largest / first.config["space"]["budget"]["forward_flops"]
    assert figures["budget-reached-after"] == after
    assert figures["padding"] is not None and 0.42 < figures["padding"] < 0.48
    assert any("of its budget after" in line and "zero padding" in line for line in closing_lines(report))


def test_figures_of_the_error_stand_beside_the_regulated_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = folder_of(tmp_path, "run")
    report, old = report_of(folder, stated_error=0.4), report_of(GOLDEN / "resumed-v5.jsonl")

    def shown(of: Report) -> list[str]:
        return [row[0].text for row in result(of).rows]

    assert {"held-out error", "time to a stated error, 40.00 %", "mean error over time"} <= {*shown(report)}
    assert any(line.startswith("held-out error") and "error of 40.00 %" in line for line in closing_lines(report))
    assert "held-out error" not in shown(old) and "mean error over time" in shown(old)
    assert not any("held-out" in line for line in closing_lines(old))
    assert not {"held-out-error", "time-to-error", "mean-error"} & {*RANKED}

    assert main(["score", str(folder), "--error", "0.4", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["error_figures"] == asdict(report.error_figures)
    assert printed["figures"]["held-out-error"] == report.error_figures.held_out is not None
    assert main(["score", str(folder), "--error", "40%"]) == 2
    assert "write --error 0.4" in capsys.readouterr().err


def test_a_run_of_its_start_alone_has_no_search(tmp_path: Path) -> None:
    figures = values(run_of(tmp_path, "fixed", {"limits.trials": 1, "schedule.warmup_seconds": 0}))

    assert figures["budget-reached"] is figures["budget-reached-after"] is None
    padded = padded_flops(start("digits_small"))
    assert figures["padding"] == pytest.approx(sum(padded) / cost(start("digits_small")).training_flops, rel=0.02)
