"""`python -m aiperf rank`: what it prints and writes, and its exit status."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from aiperf.leaderboard.list_files import FORMER
from tests.builders.listed_runs import damaged, golden
from tests.rigs.user import User


def test_a_folder_of_runs_becomes_a_list_in_four_forms(aiperf: User, tmp_path: Path) -> None:
    for release in ("resumed-v4", "resumed-v5"):
        golden(tmp_path / "runs" / release, release)

    answer = aiperf("rank", "runs", "--out", "list", "--by", "regulated")

    assert (answer.status, answer.err) == (0, "")
    assert "20261122-083105-golden" in answer.out and "written: list/rank.html" in answer.out
    assert sorted(path.name for path in (tmp_path / "list").iterdir()) == [
        "rank.csv", "rank.html", "rank.json"
    ]  # fmt: skip
    outputs = json.loads((tmp_path / "list" / "rank.json").read_text())
    assert (outputs["schema"], outputs["version"], outputs["by"]) == ("aiperf-list", 4, "regulated")
    with (tmp_path / "list" / "rank.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    entries = [row["entry"] for each in outputs["lists"] for row in each["rows"]]
    assert all(entry[former] == entry["figures"][name] for entry in entries for former, name in FORMER.items())
    scores = {entry["run"]: entry["figures"]["score"] for entry in entries}
    assert {row["run"]: float(row["score [FLOPS]"]) for row in rows} == scores
    assert len(scores) == 2
    for run in scores:
        assert run in (tmp_path / "list" / "rank.html").read_text()


def test_an_unreadable_run_is_named_and_gives_status_1(aiperf: User, tmp_path: Path) -> None:
    good = golden(tmp_path / "runs" / "good", "resumed-v4")
    damaged(good, tmp_path / "runs" / "bad")

    answer = aiperf("rank", "runs", "--json")

    assert answer.status == 1
    outputs = json.loads(answer.out)
    assert [row["entry"]["folder"] for each in outputs["lists"] for row in each["rows"]] == ["runs/good"]
    assert [each["folder"] for each in outputs["unread"]] == ["runs/bad"]


def test_nothing_to_rank_or_a_wrong_argument_gives_status_2(aiperf: User, tmp_path: Path) -> None:
    good = golden(tmp_path / "good", "resumed-v4")
    damaged(good, tmp_path / "bad")
    (tmp_path / "file").touch()

    for words, message in (
        (("nowhere",), "no run is readable: 'nowhere'"),
        (("bad",), "no run is readable: 'bad': journal damaged"),
        (("good", "--by", "regluated"), "did you mean 'regulated'?"),
        (("good", "--out", "file"), "'file' cannot be written ("),
    ):
        answer = aiperf("rank", *words)
        assert answer.status == 2
        assert answer.err.startswith("aiperf: ") and message in answer.err
        assert answer.err.count("\n") == 1
