"""`python -m aiperf score`: contract of --json, on journals computed by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest

from tests.builders.journal import (
    begun,
    ended,
    evaluated,
    finished,
    interval,
    joined,
    one_trial,
    positioned,
    proposed,
    requested,
    started,
)
from tests.rigs.user import User, write_run

CONTRACT = {
    "schema",
    "version",
    "flops_per_second",
    "flops_per_second_interval",
    "interval_method",
    "interval_basis",
    "interval_freedom",
    "regulated_flops_per_second_interval",
    "cumulative_flops_per_second",
    "regulated_flops_per_second",
    "error",
    "quality",
    "window_seconds",
    "trials_finished",
    "rounds",
    "busy_share",
    "wasted_flops",
    "valid",
    "warnings",
    "breaches",
    "ranking",
    "losses",
    "energy",
    "figures",
    "error_figures",
}


def whole_run(tmp_path: Path) -> Path:
    """100 s, the first 10 s warm-up. 300 operations per training image, 90 per validation image, 2 ranks."""
    events = one_trial(
        interval(0, 5.0, 15.0, 100, busy=10.0),
        interval(0, 15.0, 20.0, 0, 50, busy=5.0),
        evaluated(0, 20.0, 0.9),
        interval(0, 20.0, 60.0, 100, 50, epoch=2, busy=30.0),
        evaluated(0, 60.0, 0.8, epoch=2),
        finished(0, 60.0, 0.9),
        ended(),
    )
    return write_run(tmp_path / "runs" / "whole", events)


def test_json_has_the_figures_computed_by_hand(aiperf: User, tmp_path: Path) -> None:
    whole_run(tmp_path)

    answer = aiperf("score", "whole", "--json")

    found = json.loads(answer.out)
    inside = 50 * 300 + 50 * 90 + 100 * 300 + 50 * 90  # half of the first interval is in the warm-up
    assert answer.status == 0
    assert found["flops_per_second"] == pytest.approx(inside / 90)
    assert found["cumulative_flops_per_second"] == pytest.approx((inside + 50 * 300) / 100)
    assert found["error"] == pytest.approx(0.1)
    assert found["regulated_flops_per_second"] == pytest.approx(-math.log(0.1) * inside / 90)
    assert found["window_seconds"] == 90
    assert found["busy_share"] == pytest.approx((5 + 5 + 30) / 90)
    assert (found["trials_finished"], found["rounds"]) == (1, 1)
    assert found["wasted_flops"] == 0
    assert found["valid"] is True
    of_error = {"held_out": None, "stated": 0.3, "stated_seconds": 20.0, "area": pytest.approx((10 + 80 * 0.1) / 90)}
    assert found["error_figures"] == of_error


def test_json_keeps_its_contract(aiperf: User, tmp_path: Path) -> None:
    whole_run(tmp_path)

    found = json.loads(aiperf("score", "whole", "--json").out)

    assert found.keys() == CONTRACT
    assert found["interval_method"] == 4
    assert [each["text"] for each in found["warnings"] if "idle" in each["text"]] == ["56 % of accelerator time idle"]
    assert all(each["remedy"] for each in found["warnings"])


def test_a_line_names_the_largest_losses_and_json_has_all(aiperf: User, tmp_path: Path) -> None:
    whole_run(tmp_path)

    text, found = aiperf("score", "whole").out, json.loads(aiperf("score", "whole", "--json").out)

    losses = found["losses"]["losses"]
    largest = sorted(losses, key=lambda loss: -loss["flops_per_second"])[0]
    assert f"largest losses: {largest['name']} {100 * largest['share']:.1f} %" in text
    assert losses[-1]["after_flops_per_second"] == found["flops_per_second"]


def test_json_names_the_basis_of_the_interval_or_the_reason(aiperf: User, tmp_path: Path) -> None:
    whole_run(tmp_path)
    steady = [interval(0, 2e3 * index, 2e3 * index + 2e3, 90 + index % 3) for index in range(20)]
    split = [msgspec.structs.replace(each, trial=number) for number, each in enumerate(steady)]
    orders = [
        event
        for number, each in enumerate(split)
        for event in (
            requested(number, at=each.start, round=number + 1),
            proposed(number, at=each.start),
            begun(number, each.start),
            each,
            evaluated(number, each.end, 0.5),
            finished(number, each.end, 0.5),
        )
    ]
    write_run(
        tmp_path / "runs" / "steady", positioned([started(duration=40_000.0), joined(), *orders, ended(40_000.0)])
    )

    one_trial_long, many = (json.loads(aiperf("score", run, "--json").out) for run in ("whole", "steady"))

    low, high = many["flops_per_second_interval"]
    assert 0 < low < many["flops_per_second"] < high
    assert many["interval_basis"] == "the 2 slowest cosine components of the rate"
    assert one_trial_long["flops_per_second_interval"] is None
    assert one_trial_long["interval_basis"].startswith("the valid window lasts 1 min 30 s. It must last")


def test_json_lists_broken_and_undetermined_rules(aiperf: User, tmp_path: Path) -> None:
    whole_run(tmp_path)

    rules = {each["rule"]: each for each in json.loads(aiperf("score", "whole", "--json").out)["breaches"]}

    assert rules["no accelerator above its dense peak"]["is_unknown"] is True
    assert rules["warm-up of 1 h"]["is_unknown"] is False
    assert all(each["found"] and each["remedy"] for each in rules.values())


def test_an_undefined_figure_is_null(aiperf: User, tmp_path: Path) -> None:
    write_run(tmp_path / "young", [started(), joined()])

    found = json.loads(aiperf("score", "young", "--json").out)

    undefined = ("flops_per_second", "flops_per_second_interval", "regulated_flops_per_second", "error", "busy_share")
    assert [found[name] for name in undefined] == [None] * 5
    assert found["valid"] is False
    assert any("has not ended" in warning["text"] for warning in found["warnings"])


def test_a_person_reads_the_same_figures_with_their_units(aiperf: User, tmp_path: Path) -> None:
    whole_run(tmp_path)

    shown = aiperf("score", "runs/whole").out

    assert "600 FLOPS" in shown
    assert "10.00 %" in shown
    assert "warning: " in shown


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_the_exit_status_depends_on_a_valid_score(aiperf: User, tmp_path: Path, words: tuple[str, ...]) -> None:
    whole_run(tmp_path)
    write_run(tmp_path / "runs" / "young", [started(), joined()])

    assert (aiperf("score", "whole", *words).status, aiperf("score", "young", *words).status) == (0, 1)


def test_a_folder_without_a_run_is_named(aiperf: User) -> None:
    answer = aiperf("score", "nowhere")

    assert answer.status == 2
    assert "There is none at 'nowhere'" in answer.err


def test_a_damaged_journal_is_refused_with_line_and_remedy(aiperf: User, tmp_path: Path) -> None:
    journal = whole_run(tmp_path) / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"accuracy":0.9,', '"accuracy":0.99,', 1))

    answer = aiperf("score", "whole")

    assert answer.status == 2
    assert "journal damaged at line 8 of 12" in answer.err
    assert "resume_until=7" in answer.err
