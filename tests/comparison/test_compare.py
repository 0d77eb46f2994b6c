"""`python -m aiperf compare`: two sides against each other, as a gate, and equal runs among themselves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from aiperf.cli.verbs.results.compare import share
from aiperf.errors import CannotCompare
from aiperf.report.write import report_of
from tests.builders.run import folder_of
from tests.rigs.user import User


def _words(runs: Path, kind: str, names: str) -> list[str]:
    return [str(runs / kind / name) for name in names.split()]


def test_a_slower_machine_is_a_regression_of_its_speed(aiperf: User, runs: Path) -> None:
    fast, slow = _words(runs, "fast", "a0 a1 a2"), _words(runs, "slow", "s0 s1 s2")

    answer = aiperf("compare", *fast, "--with", *slow, "--max-regression", "2%")

    assert answer.status == 1 and "regression: score" in answer.out
    assert aiperf("compare", *slow, "--with", *fast, "--max-regression", "2%").status == 0
    found = json.loads(aiperf("compare", *fast, "--with", *slow, "--json").out)
    factors = {factor["name"]: factor["change"] for factor in found["factors"]}
    assert factors["speed"] == pytest.approx(-0.05, abs=0.01) and abs(factors["accelerators"]) < 1e-12
    assert found["figures"][0]["change"]["p_value"] < 0.05


def test_a_regression_without_a_margin_is_no_failure(aiperf: User, runs: Path) -> None:
    answer = aiperf("compare", *_words(runs, "fast", "a0 a1"), "--with", *_words(runs, "slow", "s0 s1"))

    assert answer.status == 0 and "regression" not in answer.out


def test_a_folder_of_runs_stands_for_all_of_them(aiperf: User, runs: Path) -> None:
    folders = aiperf("compare", str(runs / "fast"), str(runs / "slow"), "--json")

    named = aiperf("compare", *_words(runs, "fast", "a0 a1 a2"), "--with", *_words(runs, "slow", "s0 s1 s2"), "--json")
    assert folders.status == 0 and folders.out == named.out
    assert json.loads(folders.out)["first"] == ["a0", "a1", "a2"]


def test_two_single_short_runs_are_not_distinguished(aiperf: User, runs: Path) -> None:
    """A window of a few hours has no interval: disturbances of hours would not show in it."""
    answer = aiperf("compare", *_words(runs, "fast", "a0"), *_words(runs, "slow", "s0"), "--max-regression", "2%")

    assert answer.status == 2
    printed = " ".join(answer.out.split())
    assert "cannot be determined: score" in printed and "has neither for score: repeat the runs" in printed
    assert "assumed spread" not in printed, "nothing is tested by it"


def test_copies_of_one_run_are_no_repeats(aiperf: User, runs: Path, tmp_path: Path) -> None:
    journal = (runs / "fast" / "a0" / "journal.jsonl").read_bytes()
    for name, content in (("whole", journal), ("cut", b"".join(journal.splitlines(keepends=True)[:-1]))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "journal.jsonl").write_bytes(content)
    first, *slow = *_words(runs, "fast", "a0"), *_words(runs, "slow", "s0 s1")

    for copy in ("whole", "cut"):
        sides = aiperf("compare", first, str(tmp_path / copy), "--with", *slow, "--max-regression", "2%")
        assert sides.status == 2 and "are journals of one run" in sides.err
    for words in (("--repeats", first, "whole"), (first, "whole"), (first, slow[0], "--with", "whole", slow[1])):
        answer = aiperf("compare", *words)
        assert answer.status == 2 and ("each run is given once" in answer.err or "have one configuration" in answer.err)


def test_two_repeats_get_an_interval_that_two_runs_can_support(aiperf: User, runs: Path) -> None:
    answer = aiperf("compare", "--repeats", *_words(runs, "fast", "a0 a1"))

    lines = {line[:16].strip(): line for line in answer.out.splitlines()}
    assert "needs 3 runs" in lines["regulated score"] and "needs 3 runs" not in lines["score"]
    assert "assumed spread" in " ".join(answer.out.split())
    (of_score,) = [
        figure["estimate"]
        for name, figure in json.loads(aiperf("compare", "--repeats", *_words(runs, "fast", "a0 a1"), "--json").out)[
            "figures"
        ]
        if name == "score"
    ]
    assert 0.01 < of_score["standard_error"] / of_score["value"] < 0.06


def test_a_figure_without_an_uncertainty_is_never_passed(aiperf: User, runs: Path) -> None:
    one, same = _words(runs, "fast", "a0"), _words(runs, "fast", "a1")

    answer = aiperf("compare", *one, *same, "--max-regression", "50%", "--metric", "error")

    assert answer.status == 2
    printed = " ".join(answer.out.split())
    assert "cannot be determined: error" in printed and "has neither for error: repeat the runs" in printed


def test_repeats_show_their_spread(aiperf: User, runs: Path) -> None:
    answer = aiperf("compare", "--repeats", str(runs / "fast"))

    assert answer.status == 0 and "further runs needed for a 95 % interval of the" in answer.out
    assert re.search(r"with s = [\d.]+ \w?FLOPS of these 3 runs: ", " ".join(answer.out.split()))
    found = json.loads(aiperf("compare", "--repeats", str(runs / "fast"), "--json").out)
    of_score = dict(map(tuple, found["figures"]))["score"]["spread"]
    assert len(of_score["values"]) == 3 and 0 < of_score["variation"] < 0.05


@pytest.mark.parametrize("kind", ["compare", "repeats", "wide"])
def test_every_line_fits_a_terminal_of_80_columns(aiperf: User, runs: Path, kind: str) -> None:
    words = {
        "compare": ["compare", str(runs / "fast"), str(runs / "slow"), "--max-regression", "1%"],
        "repeats": ["compare", "--repeats", str(runs / "slow")],
        "wide": ["compare", str(runs / "fast" / "a0"), str(runs / "wide")],
    }[kind]

    lines = aiperf(*words).out.splitlines()

    assert lines and max(map(len, lines)) <= 80
    assert not any(line != line.rstrip() for line in lines)


def test_what_is_configured_otherwise_is_named_with_both_values(aiperf: User, runs: Path) -> None:
    found = json.loads(aiperf("compare", str(runs / "fast" / "a0"), str(runs / "wide"), "--json").out)

    named = {(each["kind"], each["name"]): (each["first"], each["second"]) for each in found["differing"]}
    assert named["configuration", "cluster.workers"] == ("4", "6")
    assert named["system", "accelerators"] == ("4", "6")
    factors = {factor["name"]: factor["change"] for factor in found["factors"]}
    assert factors["accelerators"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("fast/a0", "noisy"), "compared runs have one data set and one length"),
        (("fast/a0", "fast/a1", "fast/a2"), "3 runs without --with are no two sides"),
        (("fast/a0",), "1 runs without --with are no two sides"),
        (("fast/a0", "wide", "--with", "slow/s0"), "one configuration, except for the seed, but these differ in"),
        (("fast/a0", "fast/a0", "--with", "slow/s0"), "each run is given once"),
        (("fast/a0", "nowhere"), "the folder of a run must contain a journal.jsonl"),
        (("fast/a0", "slow/s0", "--max-regression", "two"), "found 'two'"),
        (("fast/a0", "slow/s0", "--max-regresion", "2%"), "did you mean '--max-regression'?"),
        (("fast/a0", "slow/s0", "--metric", "speed"), "invalid choice: 'speed'"),
        (("--repeats", "fast/a0"), "a spread needs at least two runs"),
        (
            ("--repeats", "fast/a0", "fast/a1", "--max-regression", "1%"),
            "--repeats cannot be combined with --with",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_with_the_remedy(
    aiperf: User, runs: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], expected: str
) -> None:
    monkeypatch.chdir(runs)

    answer = aiperf("compare", *words)

    assert answer.status == 2 and expected in answer.err


def test_a_run_that_has_not_ended_is_not_compared(aiperf: User, runs: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut"
    cut.mkdir()
    lines = (runs / "fast" / "a0" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (cut / "journal.jsonl").write_bytes(b"".join(lines[:-1]))

    answer = aiperf("compare", str(cut), str(runs / "fast" / "a1"))

    assert answer.status == 2 and "'a0': it has not ended" in answer.err


@pytest.mark.parametrize(("text", "value"), [("2%", 0.02), ("2 %", 0.02), ("0.02", 0.02), ("0", 0.0)])
def test_a_margin_is_a_share_or_per_cent(text: str, value: float) -> None:
    assert share(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["-1%", "100%", "nan", "", "%"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(CannotCompare, match="a share from 0 to below 100 %"):
        share(text)


def test_repeats_of_one_network_show_their_time_to_the_target(aiperf: User, tmp_path: Path) -> None:
    options: dict[str, object] = {
        "benchmark": "hpc_ai500_ic",
        "benchmark.target_quality": 0.3,
        "cluster.workers": 1,
        "schedule.warmup_seconds": 0,
    }
    for seed in range(3):
        folder_of(tmp_path / "fixed", f"f{seed}", options, seed=seed)

    answer = aiperf("compare", "--repeats", str(tmp_path / "fixed"), "--json")

    assert answer.status == 0, answer.err
    figures = dict(json.loads(answer.out)["figures"])
    reports = [report_of(folder).fixed_network for folder in sorted((tmp_path / "fixed").iterdir())]
    expected = {
        "quality": [found and found.quality for found in reports],
        "valid-flops": [found and found.valid_flops_per_second for found in reports],
        "epochs-to-target": [found and found.epochs_to_quality for found in reports],
        "time-to-target": [found and found.seconds_to_quality for found in reports],
    }
    assert {name: figures[name]["spread"]["values"] for name in expected} == expected


def test_repeats_of_a_search_have_no_target(aiperf: User, runs: Path) -> None:
    assert "valid FLOPS" not in aiperf("compare", "--repeats", str(runs / "fast")).out
