"""Journal of a running driver: lock, removed or replaced files, and kept bytes of a rollback."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aiperf.accounting.score import score
from aiperf.accounting.score_texts import score_warnings
from aiperf.accounting.work_log import work_log
from aiperf.drive.driver import HostTime, WallClock, host_time
from aiperf.drive.session import resumption
from aiperf.errors import JournalInUse, JournalNotLocked, JournalNotWritten, JournalTakenAway
from aiperf.journal.events import RunResumed, RunStarted
from aiperf.journal.journal import NAME, Journal, read
from tests.builders.journal import ended, evaluated, finished, interval, one_trial, resumed, started, state_after
from tests.builders.warnings import warnings_of

RUN = one_trial(interval(0, 20, 30, 100, 50), evaluated(0, 30, 0.9), finished(0, 30, 0.9))


def written(folder: Path) -> Path:
    path = folder / NAME
    with Journal(path) as journal:
        journal.append(RUN)
    return path


def taken_up(path: Path, until: int | None = None) -> Journal:
    reader = read(path, until)
    list(reader)
    return Journal(path, reader.reading)


# --- what is cut off


def test_what_was_kept_of_an_earlier_cut_is_never_overwritten(tmp_path: Path) -> None:
    path = written(tmp_path)
    tails = []
    for round_ in range(3):
        tails.append(b"".join(path.read_bytes().splitlines(keepends=True)[4:]))
        with taken_up(path, until=4) as journal:
            journal.append([resumed(40 + round_, down_seconds=40.0 + round_), ended(90 + round_)])

    kept = [tmp_path / f"{NAME}.after-line-4{suffix}" for suffix in ("", ".2", ".3")]

    assert [file.read_bytes() for file in kept] == tails
    assert len(set(tails)) == 3


def test_cut_records_lines_hash_and_path(tmp_path: Path) -> None:
    path = written(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"torn')
    tail = b"".join(path.read_bytes().splitlines(keepends=True)[5:])

    with taken_up(path, until=5) as journal:
        cut = journal.cut

    assert cut is not None
    assert (cut.lines, cut.sha256) == (3, hashlib.sha256(tail).hexdigest())
    assert cut.kept.read_bytes() == tail


def test_old_lines_are_removed_after_the_resume_line_is_on_disk(tmp_path: Path) -> None:
    path = written(tmp_path)
    before = path.read_bytes()

    with taken_up(path, until=4) as journal:
        assert path.read_bytes() == before  # a driver that dies here has rolled nothing back
        journal.append([resumed(40, down_seconds=40.0, rolled_back_lines=4, cut_sha256="")])

    lines = path.read_bytes().splitlines(keepends=True)
    assert lines[:4] == before.splitlines(keepends=True)[:4]
    assert len(lines) == 5 and b"RunResumed" in lines[4]


def test_a_rollback_stands_in_the_journal_and_beside_the_score(tmp_path: Path) -> None:
    path = written(tmp_path)
    with taken_up(path, until=5) as journal:
        standing = state_after(read_again := list(read(path, until=5)))
        first = read_again[0]
        assert isinstance(first, RunStarted)
        line = resumption(standing, first, HostTime(1_000_060.0, None, 5.0), journal.cut)
        journal.append([line, ended(100.0)])

    kept = work_log(read(path))

    assert line.rolled_back_lines == 3 and line.cut_sha256
    assert kept.rollbacks == [(60.0, 3)]
    assert any("rolled back at 60 s: 3 lines" in warning.text for warning in score_warnings(kept, score(kept)))


def test_a_torn_line_is_dropped_without_being_called_a_rollback(tmp_path: Path) -> None:
    path = written(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"torn')

    with taken_up(path) as journal:
        assert journal.cut is not None and journal.cut.lines == 0
        journal.append([resumed(40, down_seconds=10.0)])

    assert work_log(read(path)).rollbacks == []


# --- how it appears


def test_a_journal_appears_with_its_first_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / NAME, []
    write, sync = os.write, os.fsync

    def look(*arguments: Any, after: Callable[..., Any]) -> Any:
        seen.append(path.exists())
        return after(*arguments)

    monkeypatch.setattr("os.fsync", partial(look, after=sync))
    monkeypatch.setattr("os.write", partial(look, after=write))
    with Journal(path) as journal:
        seen.append(path.exists())
        journal.append(RUN)
        at_first = path.read_bytes()
        journal.append([ended()])

    assert seen[:2] == [False, False] and list(read(path))[:-1] == RUN
    assert path.read_bytes().startswith(at_first)
    assert [file.name for file in tmp_path.iterdir()] == [NAME]


def test_a_reader_beside_its_creation_finds_whole_lines(tmp_path: Path) -> None:
    """Three readers poll 100 journals while they are created."""
    paths = [tmp_path / f"{number}.jsonl" for number in range(100)]

    def first_seen(path: Path) -> bytes:
        while not path.exists():
            pass
        return path.read_bytes()

    with ThreadPoolExecutor(3) as readers:
        found = [readers.submit(lambda: [first_seen(path) for path in paths]) for _ in range(3)]
        for path in paths:
            with Journal(path, durable=False) as journal:
                journal.append(RUN)

    whole = paths[0].read_bytes()
    assert all(content == whole for reader in found for content in reader.result())


@pytest.mark.parametrize("harm", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt])
def test_a_journal_without_a_line_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: BaseException | type[BaseException]
) -> None:
    def fails(descriptor: int) -> None:
        raise harm

    monkeypatch.setattr("os.fsync", fails)
    with pytest.raises((JournalNotWritten, KeyboardInterrupt)), Journal(tmp_path / NAME) as journal:
        journal.append(RUN)

    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with Journal(path) as late:
        written(tmp_path)
        before = path.read_bytes()
        with pytest.raises(JournalInUse, match="has created"):
            late.append([started()])

    with pytest.raises(FileExistsError):
        Journal(path)
    assert path.read_bytes() == before and [file.name for file in tmp_path.iterdir()] == [NAME]


def test_a_file_system_without_hard_links_takes_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("os.link", link)
    path = written(tmp_path)

    assert list(read(path)) == RUN and list(tmp_path.iterdir()) == [path]


# --- its lock


def failing(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Make every lock fail with this error."""

    def flock(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "resumed"])
def test_a_file_system_without_locks_is_refused_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_new: bool
) -> None:
    path = tmp_path / NAME if is_new else written(tmp_path)
    failing(monkeypatch, number)

    with pytest.raises(JournalNotLocked, match=r"has no locks\. Mount it with locks .*runs=FOLDER"):
        Journal(path) if is_new else taken_up(path)

    assert path.exists() != is_new  # an empty journal would look like a run
    assert [file.name for file in tmp_path.iterdir()] == ([] if is_new else [NAME])


def test_a_second_driver_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)

    with taken_up(path), pytest.raises(JournalInUse, match="Another driver is writing"):
        taken_up(path)


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "taken up"])
def test_a_lock_that_fails_of_something_else_is_no_other_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    path = tmp_path / NAME if is_new else written(tmp_path)
    failing(monkeypatch, errno.EIO)

    with pytest.raises(JournalNotLocked, match=f"{os.strerror(errno.EIO)}.*runs=FOLDER"):
        Journal(path) if is_new else taken_up(path)

    assert path.exists() != is_new


# --- removed or replaced while it is written


def removed(path: Path) -> None:
    path.unlink()


def moved_away(path: Path) -> None:
    path.rename(path.with_suffix(".old"))


def folder_removed(path: Path) -> None:
    shutil.rmtree(path.parent)


def edited_in_place(path: Path) -> None:
    subprocess.run(["sed", "-i", "s/cpu/gpu/", path], check=True)


def copied_over(path: Path) -> None:
    """The same bytes in another file: new lines go to a file without a name."""
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").rename(path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def added_to(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"a note\n")


AWAY = [removed, moved_away, folder_removed, edited_in_place, copied_over]
CHANGED = [cut, emptied, added_to]


@pytest.mark.parametrize("harm", [*AWAY, *CHANGED], ids=lambda harm: harm.__name__)
def test_driver_without_its_journal_stops_at_the_next_commit(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with Journal(folder / NAME) as journal:
        journal.append(RUN)
        whole = (folder / NAME).read_bytes()
        harm(folder / NAME)

        with pytest.raises(JournalTakenAway, match=r"The run stops: .* (is saved: mv|are saved in) ") as error:
            journal.append([ended()])

    said = str(error.value)
    assert f"resume={folder}" in said
    kept = Path(re.split(r"is saved: mv |are saved in '", said)[1].split()[0].rstrip("'."))
    if harm in AWAY:
        # all of it was still open here, so it continues when restored
        assert kept.read_bytes().startswith(whole)
        kept.replace(folder / NAME)
        assert list(read(folder)) == [*RUN, ended()]
    else:
        assert b'"event":"RunEnded"' in kept.read_bytes() and kept.read_bytes().count(b"\n") == 1


@pytest.mark.parametrize("foreign", [b"hello\n", b"torn", b'{"event":"RunEnded"}\n' * 3])
def test_the_printed_repair_removes_foreign_lines_and_adds_ours(tmp_path: Path, foreign: bytes) -> None:
    folder = tmp_path / "a run's folder"
    folder.mkdir()
    with Journal(folder / NAME) as journal:
        journal.append(RUN)
        with (folder / NAME).open("ab") as file:
            file.write(foreign)
        with pytest.raises(JournalTakenAway) as error:
            journal.append([ended()])

    repair = str(error.value).split("To repair: ")[1].split(". To resume:")[0]
    subprocess.run(["sh", "-c", repair], check=True)

    assert list(read(folder)) == [*RUN, ended()]
    assert (folder / f"{NAME}.changed").read_bytes().endswith(foreign)


@pytest.mark.parametrize("lost", [1, 200])
def test_a_cut_journal_is_resumed_without_a_repair(tmp_path: Path, lost: int) -> None:
    path = tmp_path / NAME
    with Journal(path) as journal:
        journal.append(RUN)
        os.truncate(path, path.stat().st_size - lost)
        with pytest.raises(JournalTakenAway, match="To resume"):
            journal.append([ended()])

    whole = list(read(path))
    assert whole == RUN[: len(whole)] and 0 < len(whole) < len(RUN)
    with taken_up(path) as journal:
        journal.append([resumed(at=whole[-1].at, down_seconds=0.0)])

    assert list(read(path))[:-1] == whole


def test_what_could_not_be_written_is_kept_even_twice(tmp_path: Path) -> None:
    path = written(tmp_path)
    with taken_up(path) as journal:
        removed(path)
        for _ in range(2):
            with pytest.raises(JournalTakenAway):
                journal.append([ended()])

    name = f"{NAME}.saved-after-line-{len(RUN)}"
    assert (tmp_path / name).read_bytes() == (tmp_path / f"{name}.2").read_bytes()


def test_immutable_journal_ends_in_a_clear_error(tmp_path: Path) -> None:
    path = written(tmp_path)
    with taken_up(path) as journal:
        if subprocess.run(["chattr", "+i", path], capture_output=True, check=False).returncode != 0:
            pytest.skip("this file system or user makes no file immutable (chattr +i)")
        try:
            with pytest.raises(JournalNotWritten, match=r"could not be written .*could not be removed.*resume="):
                journal.append([ended()])
        finally:
            subprocess.run(["chattr", "-i", path], check=True)

    assert list(read(path)) == RUN


# --- its clock

BOOT = "4a0a1f6e-0000-4000-8000-000000000001"
BEGAN = started(boot_id=BOOT, boot_seconds=500.0)


def taken_up_at(unix: float, boot_id: str | None, boot_seconds: float, since: RunResumed | None = None) -> RunResumed:
    """Return the resume of a run that began 500 s after its host's boot.

    It began at 1,000,000 s of the wall clock, and its last line is at 40 s.
    """
    lines = [BEGAN, *RUN[1:]] if since is None else [BEGAN, *RUN[1:], since]
    return resumption(state_after(lines), BEGAN if since is None else since, HostTime(unix, boot_id, boot_seconds))


@pytest.mark.parametrize("step", [-86_400.0, 0.0, 86_400.0])
def test_wall_clock_step_on_the_same_boot_is_only_reported(step: float) -> None:
    line = taken_up_at(1_000_060.0 + step, BOOT, 560.0)

    assert (line.at, line.down_seconds) == (60.0, 30.0)
    assert line.clock_stepped_forward_seconds - line.clock_stepped_back_seconds == step
    told = [
        warning.text
        for warning in warnings_of([BEGAN, *RUN[1:], line, ended()])
        if "wall clock stepped" in warning.text
    ]
    assert len(told) == (step != 0)
    assert all(("forward" if step > 0 else "back") in warning for warning in told)


@pytest.mark.parametrize("boot_id", [None, "another"])
def test_after_another_boot_there_is_only_the_wall_clock(boot_id: str | None) -> None:
    line = taken_up_at(1_000_060.0, boot_id, 3.0)

    assert (line.at, line.down_seconds) == (60.0, 30.0)
    assert line.clock_stepped_back_seconds == line.clock_stepped_forward_seconds == 0


def test_a_second_resume_counts_from_the_first() -> None:
    since = resumed(60.0, down_seconds=30.0, boot_id="another", boot_seconds=7.0)

    line = taken_up_at(1_000_000.0, "another", 17.0, since)

    assert line.at == 70.0


def test_clock_correction_below_a_second_is_no_warning() -> None:
    line = taken_up_at(1_000_060.4, BOOT, 560.0)

    warnings = warnings_of([BEGAN, *RUN[1:], line, ended()])

    assert not any("wall clock" in warning.text for warning in warnings)


def test_driver_clock_uses_the_boot_of_this_host() -> None:
    before = host_time()
    clock = WallClock(already=5.0)

    now, after = clock.now(), host_time()

    assert before.boot_id == after.boot_id
    assert 5.0 <= now <= 5.0 + after.boot_seconds - before.boot_seconds + 1e-6
