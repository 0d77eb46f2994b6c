"""A run that was announced begins as it was announced, once, or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aiperf.journal.events import RunEnded, RunStarted
from aiperf.journal.journal import read
from tests.cli.user import Answer, User
from tests.submission.keys import allowed_file, key_file

WORDS = (
    "+cluster=simulated",
    "cluster.workers=2",
    "schedule.duration_seconds=60",
    "schedule.warmup_seconds=10",
    "searcher=random",
    "hpo=off",
)


def announced(user: User, *words: str, key: str = "key") -> str:
    """The id of a new announcement."""
    answer: Answer = user("announce", *words, "--key", key, "--log", "log", "--json")
    assert answer.status == 0, answer.err
    return str(json.loads(answer.out)["id"])


def begun(user: User, wanted: str, *words: str) -> Answer:
    return user(*words, f"announcement={wanted}", "announcement_log=log")


def runs(folder: Path) -> list[Path]:
    return sorted((folder / "runs").glob("*"))


def test_an_announced_run_is_begun_once_and_its_journal_names_the_announcement(aiperf: User, tmp_path: Path) -> None:
    key_file(tmp_path)
    wanted = announced(aiperf, *WORDS)

    first, second = begun(aiperf, wanted, *WORDS), begun(aiperf, wanted, *WORDS)

    (run,) = runs(tmp_path)
    started, *_, last = read(run)
    assert isinstance(started, RunStarted)
    assert started.config["announcement"] == wanted
    assert isinstance(last, RunEnded) and last.reason == "duration" and first.status != 2, first.err
    assert second.status == 2
    assert f"was used by run '{run.name}'" in second.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["seed=1"], "seed is 1, and 0 was announced"),
        (["schedule.duration_seconds=61"], "schedule.duration_seconds is 61.0, and 60.0 was announced"),
        (["hpo=tpe"], "hpo.name is 'tpe', and 'off' was announced"),
        (["cluster.workers=3"], "cluster.workers is 3, and 2 was announced"),
        (["name=other"], "name is 'other', and None was announced"),
    ],
)
def test_a_run_that_differs_from_its_announcement_is_refused_before_anything_is_made(
    aiperf: User,
    tmp_path: Path,
    words: list[str],
    told: str,
) -> None:
    key_file(tmp_path)
    wanted = announced(aiperf, *WORDS)

    others = [word for word in WORDS if word.split("=")[0] != words[0].split("=")[0]]
    answer = begun(aiperf, wanted, *others, *words)

    assert answer.status == 2
    assert told in answer.err
    assert runs(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "key.pub", "log"], (
        "the announcement is still free"
    )


def test_a_run_under_other_rules_or_before_its_announcement_is_refused(
    aiperf: User,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key_file(tmp_path)
    wanted = announced(aiperf, *WORDS)
    monkeypatch.setattr("aiperf.submission.announced_run.RULES", 99)
    monkeypatch.setattr("aiperf.submission.announced_run.time.time", lambda: 1_000_000.0)

    answer = begun(aiperf, wanted, *WORDS)

    assert "its proposals follow rules 99, and rules" in answer.err
    assert "s before it was announced" in answer.err


def test_a_withdrawn_announcement_and_one_that_is_not_there_are_refused(aiperf: User, tmp_path: Path) -> None:
    key_file(tmp_path)
    wanted = announced(aiperf, *WORDS)
    aiperf("announce", "--withdraw", wanted, "--why", "node 7 burnt", "--key", "key", "--log", "log")

    assert "was withdrawn (node 7 burnt)" in begun(aiperf, wanted, *WORDS).err
    assert "holds no announced run" in begun(aiperf, "0" * 64, *WORDS).err
    assert "64 hexadecimal digits" in begun(aiperf, "abc", *WORDS).err
    assert "announcement=ID announcement_log=FILE" in aiperf(*WORDS, f"announcement={wanted}").err
    assert runs(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--key", "key"], "--log"),
        (["--log", "log"], "--key KEY"),
        (["--log", "log", "--key", "nokey"], "'nokey' cannot be read"),
        (["--log", "log", "--key", "key", "dry_run=true"], "leave dry_run out"),
        (["--log", "log", "--key", "key", "seed=-1"], "seed is at least 0"),
        (["--log", "log", "--key", "key", "sead=1"], "did you mean"),
        (["--log", "log", "--key", "key", "--withdraw", "0"], "go together"),
        (["--log", "log", "--show", "seed=1"], "leave seed=1 out"),
        (["--log", "log", "--show"], "'log' cannot be read"),
    ],
)
def test_what_cannot_be_announced_is_refused_and_nothing_is_written(
    aiperf: User,
    tmp_path: Path,
    words: list[str],
    told: str,
) -> None:
    key_file(tmp_path)

    answer = aiperf("announce", *words)

    assert answer.status == 2
    assert told in answer.err
    assert not (tmp_path / "log").exists() or (tmp_path / "log").read_bytes() == b""


def test_a_log_is_shown_with_whose_key_it_was(aiperf: User, tmp_path: Path) -> None:
    site, other = key_file(tmp_path), key_file(tmp_path, "other")
    allowed_file(tmp_path, site=site)
    wanted = announced(aiperf, *WORDS)
    known = aiperf("announce", "--show", "--log", "log", "--allowed", "allowed_signers")
    aiperf("announce", "--witness", "--key", str(other), "--log", "log")
    unknown = aiperf("announce", "--show", "--log", "log", "--allowed", "allowed_signers")
    shown = json.loads(aiperf("announce", "--show", "--log", "log", "--json").out)

    assert (known.status, unknown.status) == (0, 1)
    assert f"{wanted}  site" in known.out
    assert "witnessed" in unknown.out and "UNKNOWN KEY SHA256:" in unknown.out
    assert [entry["entry"] for entry in shown["entries"]] == ["announced", "witnessed"]
    assert shown["head"] == shown["entries"][1]["id"]
