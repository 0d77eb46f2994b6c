"""Progress of long verbs: on standard error, after some seconds, with an estimate, and never with --json."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from aiperf import progress
from aiperf.cli.arguments import _LONG, VERBS
from aiperf.journal.journal import NAME, read
from aiperf.submission import build
from aiperf.verify import verification
from aiperf.verify.check import Verification
from tests.builders.run import folder_of
from tests.builders.submission import key_file
from tests.rigs.user import User


@pytest.fixture
def at_once(aiperf: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress from the start, after `aiperf` has put it off."""
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.05)


def next_line(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    shown = ""
    while shown.count("\n") < 2:  # the first may be of the step before
        time.sleep(0.01)
        shown += capsys.readouterr().err
    return shown.splitlines()[-1]


@pytest.mark.usefixtures("at_once")
def test_a_line_has_the_steps_done_and_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.shown("verb"):
        lines = [next_line(capsys) for _ in progress.steps("cases", range(3)) for _ in progress.steps("runs", range(2))]

    assert re.fullmatch(r"verb: cases 0 of 3, runs 0 of 2, [\d.]+ m?s so far", lines[0])
    assert re.fullmatch(r"verb: cases 2 of 3, runs 1 of 2, [\d.]+ m?s so far, about [\d.]+ m?s left", lines[-1])


@pytest.mark.usefixtures("at_once")
def test_nothing_is_shown_without_a_listener_or_after_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert [*progress.steps("cases", "ab")] == ["a", "b"]
    with progress.shown("verb"):
        pass
    time.sleep(0.2)

    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("at_once")
def test_a_journal_is_read_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "MOST_COUNTED", 1)
    folder = folder_of(tmp_path, "a")

    with progress.shown("verify"):
        events = iter(read(folder / NAME))
        next(events)
        line = next_line(capsys)
        events.close()  # type: ignore[attr-defined]

    assert re.fullmatch(r"verify: journal \d+ %, [\d.]+ m?s so far, about [\d.]+ m?s left", line)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_long_verb_shows_progress_except_with_json(
    aiperf: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    folder = folder_of(tmp_path, "a")
    verify = verification.verify

    def slow(*words: Any) -> Verification:
        time.sleep(0.3)
        return verify(*words)

    monkeypatch.setattr("aiperf.verify.verify", slow)

    answer = aiperf("verify", str(folder), *flags)

    assert answer.status == 0
    assert ("verify: " in answer.err) == (not flags)
    assert "so far" not in answer.out


def test_the_verbs_exist() -> None:
    assert set(_LONG) <= VERBS.keys()


@pytest.mark.parametrize("wrong", ["key", "out", "folder"])
def test_submit_looks_at_key_and_file_before_the_long_work(
    aiperf: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    folder = folder_of(tmp_path, "a")
    key, out = key_file(tmp_path), tmp_path / "new.tar.gz"
    if wrong == "key":
        key.write_text("secret")
    else:
        out = tmp_path if wrong == "folder" else tmp_path / "nowhere" / "new.tar.gz"
    worked: list[object] = []
    monkeypatch.setattr(build, "_contents", lambda *words, **_: worked.append(words))

    answer = aiperf("submit", str(folder), "--key", str(key), "--out", str(out))

    assert answer.status == 2 and worked == []
    assert ("--key is an Ed25519 key" if wrong == "key" else "--out") in answer.err
