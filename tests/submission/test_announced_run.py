"""A run that was announced begins as it was announced, once, or not at all."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from aiperf.journal.events import RunEnded, RunStarted
from aiperf.journal.journal import read
from aiperf.ranking.candidate import announced_seed
from aiperf.report.candidate import candidate_of
from aiperf.submission.announcement_file import read_log
from aiperf.submission.announcements import RunBegun
from tests.builders.submission import allowed_file, key_file
from tests.rigs.user import Answer, User

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
    seed = announced_seed(wanted) if len(wanted) == 64 else 0
    return user(f"seed={seed}", *words, f"announcement={wanted}", "announcement_log=log")


def runs(folder: Path) -> list[Path]:
    return sorted((folder / "runs").glob("*"))


def test_an_announced_run_begins_once_and_names_its_announcement(aiperf: User, tmp_path: Path) -> None:
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
    last_entry = read_log(tmp_path / "log").entries[-1]
    assert isinstance(last_entry.entry, RunBegun) and last_entry.key is None
    assert (last_entry.entry.announcement, last_entry.entry.run) == (wanted, started.run)


def test_the_seed_of_an_announced_run_follows_from_its_id(aiperf: User, tmp_path: Path) -> None:
    key_file(tmp_path)
    chosen = aiperf("announce", *WORDS, "seed=7", "--key", "key", "--log", "log")
    lines = aiperf("announce", *WORDS, "--key", "key", "--log", "log").out.splitlines()
    wanted = lines[0].split()[1]

    other = aiperf(*WORDS, f"announcement={wanted}", "announcement_log=log", "seed=7")

    assert "Leave seed=7 out" in chosen.err
    assert f" seed={announced_seed(wanted)} announcement={wanted}" in lines[-1]
    assert f"seed is 7, and seed {announced_seed(wanted)} follows from the announcement" in other.err


def test_a_log_in_a_folder_with_a_slash_gets_the_folder(aiperf: User, tmp_path: Path) -> None:
    key_file(tmp_path)

    answer = aiperf("announce", *WORDS, "--key", "key", "--log", "site/")

    assert answer.status == 0, answer.err
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["announcements.jsonl"]
    assert aiperf("announce", *WORDS, "--key", "key", "--log", "no/site/").status == 2


def test_a_wrong_key_file_is_refused_without_its_content(aiperf: User, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("swordfish" * 1000)

    answer = aiperf("announce", *WORDS, "--key", "secret", "--log", "log")

    assert answer.status == 2
    assert "'secret' is another file" in answer.err
    assert "swordfish" not in answer.err and len(answer.err) < 500


def test_a_run_with_the_seed_of_its_announcement_is_as_announced(aiperf: User, tmp_path: Path) -> None:
    key_file(tmp_path)
    printed = aiperf("announce", *WORDS, "--key", "key", "--log", "log")
    (command,) = [line for line in printed.out.splitlines() if line.startswith("start it")]
    words = shlex.split(command)
    begin = next(at for at, word in enumerate(words) if "=" in word)

    answer = aiperf(*words[begin:])

    assert answer.status != 2, answer.err
    (run,) = runs(tmp_path)
    started = next(iter(read(run)))
    assert isinstance(started, RunStarted)
    assert started.seed == int(str(started.config["announcement"])[:8], 16)
    assert candidate_of(read(run)).seed_source == "announcement"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["schedule.duration_seconds=61"], "schedule.duration_seconds is 61.0, and 60.0 was announced"),
        (["hpo=tpe"], "hpo.name is 'tpe', and 'off' was announced"),
        (["cluster.workers=3"], "cluster.workers is 3, and 2 was announced"),
        (["name=other"], "name is 'other', and None was announced"),
    ],
)
def test_a_differing_run_is_rejected_before_anything_is_created(
    aiperf: User,
    tmp_path: Path,
    words: list[str],
    expected: str,
) -> None:
    key_file(tmp_path)
    wanted = announced(aiperf, *WORDS)

    others = [word for word in WORDS if word.split("=")[0] != words[0].split("=")[0]]
    answer = begun(aiperf, wanted, *others, *words)

    assert answer.status == 2
    assert expected in answer.err
    assert runs(tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "key.pub", "log"], (
        "the announcement is still free"
    )


def test_other_rules_or_an_early_start_are_rejected(
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


def test_a_withdrawn_or_missing_announcement_is_rejected(aiperf: User, tmp_path: Path) -> None:
    key_file(tmp_path)
    wanted = announced(aiperf, *WORDS)
    aiperf("announce", "--withdraw", wanted, "--why", "node 7 burnt", "--key", "key", "--log", "log")

    assert "was withdrawn (node 7 burnt)" in begun(aiperf, wanted, *WORDS).err
    assert "holds no announced run" in begun(aiperf, "0" * 64, *WORDS).err
    assert "64 hexadecimal digits" in begun(aiperf, "abc", *WORDS).err
    assert "announcement=ID announcement_log=FILE" in aiperf(*WORDS, f"announcement={wanted}").err
    assert runs(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--key", "key"], "--log"),
        (["--log", "log"], "--key KEY"),
        (["--log", "log", "--key", "nokey"], "'nokey' cannot be read"),
        (["--log", "log", "--key", "key", "dry_run=true"], "Leave dry_run out"),
        (["--log", "log", "--key", "key", "seed=-1"], "seed is at least 0"),
        (["--log", "log", "--key", "key", "sead=1"], "did you mean"),
        (["--log", "log", "--key", "key", "--withdraw", "0"], "go together"),
        (["--log", "log", "--show", "seed=1"], "found seed=1: leave them out"),
        (["--log", "log", "--show"], "'log' cannot be read"),
    ],
)
def test_an_invalid_announcement_is_rejected_and_not_written(
    aiperf: User,
    tmp_path: Path,
    words: list[str],
    expected: str,
) -> None:
    key_file(tmp_path)

    answer = aiperf("announce", *words)

    assert answer.status == 2
    assert expected in answer.err
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
