"""`python -m aiperf compare --repeats` draws each run as one dot."""

from __future__ import annotations

import json
from pathlib import Path

from aiperf.report.write import report_of
from tests.builders.run import folder_of
from tests.comparison.test_compare import _words
from tests.rigs.user import User


def test_repeats_are_drawn_as_dots_in_three_formats(aiperf: User, runs: Path) -> None:
    answer = aiperf("compare", "--repeats", *_words(runs, "fast", "a0 a1 a2"))

    assert answer.status == 0, answer.err
    files = [Path(line) for line in answer.out.splitlines()[-3:]]
    assert [file.name for file in files] == ["repeats.svg", "repeats.png", "repeats.pdf"]
    svg = files[0].read_text()
    assert "3 runs: run " in svg and ">score<" in svg
    assert files[1].read_bytes().startswith(b"\x89PNG") and files[2].read_bytes().startswith(b"%PDF")


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
        "valid FLOPS": [found and found.valid_flops_per_second for found in reports],
        "epochs to target": [found and found.epochs_to_quality for found in reports],
        "time to target": [found and found.seconds_to_quality for found in reports],
    }
    assert {name: figures[name]["spread"]["values"] for name in expected} == expected
    assert "time to target" in aiperf("compare", "--repeats", str(tmp_path / "fixed")).out


def test_repeats_of_a_search_have_no_target(aiperf: User, runs: Path) -> None:
    answer = aiperf("compare", "--repeats", str(runs / "fast"))

    assert "valid FLOPS" not in answer.out
