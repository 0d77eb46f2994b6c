"""Comparison of a list with a site's announcements, including missing runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec

from aiperf.config import configure
from aiperf.leaderboard.leaderboard import NOT_ANNOUNCED, UNCHECKED, with_announcements
from aiperf.submission.announced_run import announcement
from aiperf.submission.announcement_file import add, read_log
from tests.builders.leaderboard_entry import FIXED, QUICK, entry
from tests.builders.listed_runs import golden
from tests.builders.submission import allowed_file, key_file
from tests.rigs.user import User, write_run
from tests.submission.test_published import announce, begin, run_of


def test_a_list_counts_announced_and_missing_runs(
    aiperf: User,
    tmp_path: Path,
) -> None:
    announce(tmp_path / "log", 3, key_file(tmp_path, "site"))
    begin(tmp_path / "log", 1)
    begin(tmp_path / "log", 3)
    log = read_log(tmp_path / "log")
    for number in (1, 3):
        first = msgspec.structs.replace(run_of(log, number), duration_seconds=180.0, warmup_seconds=20.0)
        write_run(tmp_path / "runs" / f"r{number}", [first])
    golden(tmp_path / "runs" / "old", "resumed-v4")

    answer = aiperf("rank", "runs", "--announcements", "log", "--json")

    assert answer.status == 0, answer.err
    document = json.loads(answer.out)
    counts = {row["entry"]["run"]: row["entry"]["announced"] for each in document["lists"] for row in each["rows"]}
    both = {"published": 2, "announced": 3}
    assert counts == {"run-1": both, "run-3": both, "20261122-083105-golden": None}
    (site,) = document["sites"]
    assert [(site["log"], each["number"]) for each in site["announced"]["missing"]] == [("log", 2)]

    answer = aiperf("rank", "runs", "--announcements", "log", "--out", "list")

    assert "2 of 3 announced runs published" in answer.out and "number 2, announced on" in answer.out
    assert "2 of 3" in (tmp_path / "list" / "rank.html").read_text()
    assert aiperf("rank", "runs", "--announcements", "nowhere").status == 2


def test_a_second_log_of_a_key_gives_its_runs_no_place(tmp_path: Path) -> None:
    """A log copied before the run and continued, or begun anew, would hide runs. An earlier state hides nothing."""
    key, paths = key_file(tmp_path, "site"), {name: tmp_path / name for name in ("log", "early", "copy", "new")}
    announce(paths["log"], 2, key)
    for name in ("early", "copy"):
        shutil.copy(paths["log"], paths[name])
    begin(paths["log"], 1)
    begin(paths["copy"], 2)
    add(paths["new"], key, lambda log: announcement(configure(["name=new"]), log, 0.0, f"SHA256:{43 * 'A'}"))
    logs = {name: read_log(path) for name, path in paths.items()}
    run = entry("a", announcement=logs["log"].entries[0].id)
    allowed = allowed_file(tmp_path, site=key, other=tmp_path / "nonce-key")

    def fault(*names: str) -> tuple[str, list[str]]:
        given = {name: logs[name] for name in names}
        (judged,), sites = with_announcements([run], [run_of(logs["log"], 1)], given, allowed)
        return judged.announcement_fault, [site.log for site in sites if site.fault]

    assert fault("log") == ("", [])
    assert fault("log", "early") == fault("early", "log") == ("", ["early"])
    for rival in ("copy", "new"):
        why, sites = fault("log", rival)
        assert why.startswith("a key announces in one log, but SHA256:")
        assert sites == ["log", rival] or sites == [rival, "log"]


def test_runs_of_a_fixed_network_are_announced_with_site_and_system(tmp_path: Path) -> None:
    """The best of ten runs that nobody announced gained 1 to 2 %."""
    site = key_file(tmp_path, "site")
    announce(tmp_path / "log", 1, site)
    begin(tmp_path / "log", 1)
    log = read_log(tmp_path / "log")
    id = log.entries[0].id
    runs = [
        entry("a", benchmark=FIXED, site="Lab", system="Alpha", announcement=id),
        entry("b", benchmark=FIXED, site="Lab", system="Alpha"),
        entry("c", benchmark=FIXED, announcement=id),
    ]
    firsts = [run_of(log, 1)] * 3

    def faults(**signers: Path) -> list[str]:
        allowed = allowed_file(tmp_path, **signers) if signers else None
        return [each.announcement_fault for each in with_announcements(runs, firsts, {"log": log}, allowed)[0]]

    assert faults(site=site, other=tmp_path / "nonce-key") == ["", NOT_ANNOUNCED, NOT_ANNOUNCED]
    assert faults(site=site)[0] == "its nonce is not signed by another known principal"
    assert faults()[0].startswith("it is not checked whose nonce gave its seed")
    assert with_announcements(runs[:1], firsts[:1], {})[0][0].announcement_fault == UNCHECKED


def test_without_its_log_no_ranked_run_has_a_place(tmp_path: Path) -> None:
    """An id that nobody announced also gives a seed, and a site could show the best of several announced runs alone."""
    announce(tmp_path / "log", 1, key_file(tmp_path, "site"))
    first = run_of(read_log(tmp_path / "log"), 1)
    ranked, quick, unannounced = (
        entry("a", announcement="0000002a" + 56 * "f"),
        entry("b", benchmark=QUICK, announcement="0000002a" + 56 * "f"),
        entry("c", announcement=None),
    )

    entries, sites = with_announcements([ranked, quick, unannounced], [first] * 3, {})

    assert sites == ()
    assert [each.announcement_fault for each in entries] == [
        "its announcement is not checked: give the log of its site with --announcements",
        "",
        "",
    ]
