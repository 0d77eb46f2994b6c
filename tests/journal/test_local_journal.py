"""Journal on the driver's local disk and its copy in the run's folder: equal at the end, and resumed from the longer one."""

from __future__ import annotations

import doctest
import errno
import time
from pathlib import Path

import pytest

from aiperf.errors import BadConfiguration, CannotResume, JournalInUse, JournalNotWritten
from aiperf.journal import local_journal
from aiperf.journal.journal import NAME, Journal, JournalReading, read
from aiperf.journal.local_journal import StorageConf, local_path, open_journal, to_be_read
from tests.builders.journal import ended, evaluated, finished, interval, one_trial, resumed

RUN = one_trial(interval(0, 20, 30, 100, 50), evaluated(0, 30, 0.9), finished(0, 30, 0.9))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Run's folder on the shared file system. The local disk is `tmp_path / 'disk'`."""
    folder = tmp_path / "runs" / "a-run"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return tmp_path / "disk"


def whole(folder: Path) -> bytes:
    """Complete journal of RUN."""
    other = folder.parent / "other"
    other.mkdir()
    with Journal(other / NAME) as journal:
        journal.append(RUN)
    return (other / NAME).read_bytes()


def left(folder: Path, disk: Path, own: bytes | None, copy: bytes) -> Path:
    """Write the files that a killed driver leaves, and return the path of the local journal."""
    path = local_path(folder, disk)
    if own is not None:
        path.parent.mkdir(parents=True)
        path.write_bytes(own)
    (folder / NAME).write_bytes(copy)
    return path


def taken_up(folder: Path, disk: Path, until: int | None = None) -> None:
    """Resume from these files to the end of the run."""
    reader = read(to_be_read(folder, disk), until)
    list(reader)
    with open_journal(folder, disk, reader.reading) as journal:
        rolled = journal.cut.lines if journal.cut is not None else 0
        down = 40.0 - RUN[journal.lines - 1].at
        journal.append([resumed(40.0, down_seconds=down, rolled_back_lines=rolled, cut_sha256="" if rolled else None)])
        journal.append([ended(100.0)])


def test_the_place_of_a_journal_has_one_of_two_forms() -> None:
    assert doctest.testmod(local_journal).failed == 0
    for wrong in ("local", "local:", "local:relative", "/scratch", ""):
        with pytest.raises(BadConfiguration, match=r"storage\.journal is 'shared', or 'local:FOLDER'"):
            StorageConf(wrong)


def test_copy_follows_the_run_and_is_complete_at_its_end(folder: Path, disk: Path) -> None:
    own = local_path(folder, disk)
    with open_journal(folder, disk) as journal:
        journal.append(RUN[:4])
        deadline = time.monotonic() + 600.0
        while (folder / NAME).read_bytes() != own.read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        journal.append(RUN[4:])

    assert (folder / NAME).read_bytes() == own.read_bytes()
    assert list(read(folder)) == RUN


def test_copy_is_complete_after_a_run_that_stopped_by_an_error(folder: Path, disk: Path) -> None:
    with pytest.raises(RuntimeError, match="planted"), open_journal(folder, disk) as journal:
        journal.append(RUN)
        raise RuntimeError("planted")

    assert (folder / NAME).read_bytes() == local_path(folder, disk).read_bytes()
    assert list(read(folder)) == RUN


def test_default_is_one_journal_in_the_run_folder(folder: Path, tmp_path: Path) -> None:
    with open_journal(folder, None) as journal:
        journal.append(RUN)

    assert list(read(folder)) == RUN and [file.name for file in tmp_path.iterdir()] == ["runs"]


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
@pytest.mark.parametrize("longer", ["own", "copy", "copy alone"])
def test_run_resumes_from_the_longer_of_two_journals(folder: Path, disk: Path, share: float, longer: str) -> None:
    """Cut at any byte, as a failed host leaves it."""
    content = whole(folder)
    first_line = content.index(b"\n") + 1
    part = content[: first_line + int(share * (len(content) - first_line))]
    own = left(folder, disk, {"own": content, "copy": part}.get(longer), part if longer == "own" else content)

    taken_up(folder, disk)

    assert (folder / NAME).read_bytes() == own.read_bytes()
    assert list(read(folder))[: len(RUN)] == RUN and list(read(folder))[-1] == ended(100.0)


def test_what_is_rolled_back_goes_from_the_copy_too(folder: Path, disk: Path) -> None:
    content = whole(folder)
    own = left(folder, disk, content, content)

    taken_up(folder, disk, until=5)

    assert (folder / NAME).read_bytes() == own.read_bytes()
    assert list(read(folder))[:5] == RUN[:5] and len(list(read(folder))) == 7


def test_diverged_journals_are_refused_and_unchanged(folder: Path, disk: Path) -> None:
    content = whole(folder)
    own = left(folder, disk, content, content)
    taken_up(folder, disk)
    gone_on = own.read_bytes()
    (folder / NAME).write_bytes(content)
    with Journal(folder / NAME, _reading(folder)) as elsewhere:
        elsewhere.append([resumed(50.0, down_seconds=50.0 - RUN[-1].at)])
    copy = (folder / NAME).read_bytes()

    with pytest.raises(CannotResume, match=r"differ from byte \d+ on: two drivers"):
        to_be_read(folder, disk)

    assert (own.read_bytes(), (folder / NAME).read_bytes()) == (gone_on, copy)


def _reading(folder: Path) -> JournalReading:
    reader = read(folder)
    list(reader)
    return reader.reading


def test_copy_locks_out_a_driver_on_another_host(folder: Path, disk: Path) -> None:
    with open_journal(folder, disk) as journal:
        journal.append(RUN)
        reading = None
        while reading is None or reading.lines < len(RUN):
            reading = _reading(folder) if (folder / NAME).stat().st_size else None

        with pytest.raises(JournalInUse), open_journal(folder, disk.with_name("another"), reading):
            pass

    assert not disk.with_name("another").exists()


def test_incomplete_copy_is_an_error_with_the_journals_path(
    folder: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local_journal._Copy, "_copy", full)

    with (
        pytest.raises(JournalNotWritten, match=rf"No space left.*complete journal: cp {local_path(folder, disk)} "),
        open_journal(folder, disk) as journal,
    ):
        journal.append(RUN)

    assert list(read(local_path(folder, disk))) == RUN
