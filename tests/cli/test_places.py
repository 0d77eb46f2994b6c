"""Where a command reads and writes: what the system refuses is answered in words, and a run that ended stays ended."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiperf.journal.journal import NAME
from aiperf.journal.run_folder import run_folder
from aiperf.page.section import DrawnFigure, Section
from tests.rigs.limits import small_file_system
from tests.rigs.user import User

GOLDEN = Path(__file__).parents[1] / "golden" / "resumed-v5.jsonl"


def a_run(folder: Path) -> Path:
    """A run's folder with the journal of a real one."""
    folder.mkdir(parents=True)
    shutil.copy(GOLDEN, folder / NAME)
    return folder


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures and a page that take no time: it is about where they are written."""
    score = Section("score", "score", (DrawnFigure("score", "score", "", "", "<svg/>", b"png" * 100_000, b"pdf"),))
    monkeypatch.setattr("aiperf.report.sections.sections", lambda report: (score,))
    monkeypatch.setattr("aiperf.report.html.page", lambda *of: "a page")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 kB."""
    with small_file_system(tmp_path / "small", "size=200k") as folder:
        yield folder


def read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def last_command(message: str) -> list[str]:
    """The words after `python -m aiperf` of the command that a message ends with, as a shell reads them."""
    return shlex.split(message.rpartition("python -m aiperf ")[2])


def test_a_report_without_disk_space_names_another_command(aiperf: User, small_disk: Path) -> None:
    run = a_run(small_disk / "a run")

    answer = aiperf("report", str(run))

    assert answer.status == 2 and "No space left on device" in answer.err
    assert not list(run.rglob(".*")), "no incomplete file remains"
    words = last_command(answer.err)
    assert words == ["report", str(run), "--out", "DIR"]


def test_verbs_that_read_work_on_a_read_only_archive(aiperf: User, small_disk: Path) -> None:
    run = a_run(small_disk / "run")
    read_only(small_disk)

    answer = aiperf("report", str(run))

    assert answer.status == 2 and "Read-only file system" in answer.err
    words = last_command(answer.err)
    assert aiperf(*words[:-1], "new/folder").status == 0
    assert {each.name for each in Path("new/folder").iterdir()} == {"report.html", "report.json", "plots"}
    assert aiperf("score", str(run)).status == 0
    assert aiperf("submit", str(run), "--out", f"{run}/one.tar.gz").status == 2


def test_an_unexpected_system_error_names_the_path(aiperf: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(word: str) -> Path:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), f"/far/{word}")

    monkeypatch.setattr("aiperf.journal.run_folder.run_folder", lost)

    answer = aiperf("score", "run")

    assert answer.status == 2
    assert "'/far/run': Stale file handle" in answer.err and "To fix it" in answer.err


def test_a_programming_error_keeps_its_traceback(aiperf: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(word: str) -> Path:
        raise ZeroDivisionError

    monkeypatch.setattr("aiperf.journal.run_folder.run_folder", faulty)

    with pytest.raises(ZeroDivisionError):
        aiperf("score", "run")


AS_ANOTHER_USER = """
import os, sys
from aiperf.__main__ import main
from aiperf.cli.arguments import execute
import aiperf.report.write, aiperf.verify
verbs = ("score", "check", "verify", "status")
for verb in verbs:
    main([verb, sys.argv[2]])  # what is loaded late is loaded: the other user may not reach the interpreter
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
for verb in verbs:
    print(main([verb, sys.argv[1]]), file=sys.stderr)
"""


def test_a_journal_without_read_permission_gives_a_message(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    run = a_run(tmp_path / "run")
    (run / NAME).chmod(0o600)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o5 != 0o5:
            folder.chmod(0o755)  # so that the other user comes as far as the journal

    answer = subprocess.run(
        [sys.executable, "-c", AS_ANOTHER_USER, str(run), str(a_run(tmp_path / "mine"))],
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.returncode == 0, answer.stderr
    assert answer.stderr.count("Permission denied") == answer.stderr.count("\n2\n") == 4, answer.stderr


def test_a_broken_pipe_of_another_process_is_an_error(aiperf: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(word: str) -> Path:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    monkeypatch.setattr("aiperf.journal.run_folder.run_folder", broken)

    answer = aiperf("score", "run")

    assert answer.status == 2 and "Broken pipe" in answer.err


def test_each_verb_that_drops_a_torn_line_reports_it(aiperf: User, tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    with (run / NAME).open("ab") as file:
        file.write(b'{"event":"Prog')

    for verb in ("score", "report", "check"):
        assert "last line is incomplete, 14 bytes" in aiperf(verb, str(run)).out, verb


def test_a_run_is_given_by_folder_name_or_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = a_run(tmp_path / "runs" / "one")

    assert run_folder("runs/one") == run_folder("one") == Path("runs/one")
    assert run_folder(str(run / NAME)) == run


SHORT = (
    "+cluster=simulated",
    "cluster.workers=2",
    "schedule.duration_seconds=300",
    "schedule.warmup_seconds=60",
    "name=r",
)


@pytest.mark.parametrize(
    "kilobytes", [8, 120, *(pytest.param(size, marks=pytest.mark.slow) for size in (4, 24, 48, 400, 520, 2000))]
)
def test_a_full_disk_gives_a_message_at_every_stage_of_a_run(aiperf: User, tmp_path: Path, kilobytes: int) -> None:
    runs = tmp_path / "runs it's"
    runs.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(runs)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount")
    try:
        answer = aiperf(*SHORT, f"runs={runs}")

        made = list(runs.iterdir())
        journals = [
            folder / NAME for folder in made if (folder / NAME).exists()
        ]  # none without room for its first line
        has_ended = any(b'"event":"RunEnded"' in journal.read_bytes() for journal in journals)
        if not has_ended:
            assert answer.status == 2 and "No space left on device" in answer.err
        elif not (made[0] / "report.html").is_file():
            assert answer.status == 2 and "No space left on device" in answer.err and "score" in answer.out.lower()
            words = last_command(answer.err)
            assert words == ["report", str(made[0]), "--out", "DIR"]
            assert aiperf(*words[:-1], str(tmp_path / "elsewhere")).status == 0
            assert (tmp_path / "elsewhere" / "report.json").is_file()
        else:
            assert answer.status in (0, 1), answer.err
        assert has_ended == (kilobytes > 100)
    finally:
        subprocess.run(["umount", "--lazy", str(runs)], check=True)
