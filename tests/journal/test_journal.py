"""A journal is whole, or it says where not; nothing that was written is ever lost to bad input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.errors import JournalDamaged, JournalInUse, NoSuchRun
from aiperf.journal.events import SCHEMA, SCHEMAS_READ, AnyEvent, RunResumed
from aiperf.journal.journal import NAME, Journal, read
from tests.journals import ended, evaluated, finished, interval, one_trial, resumed, started

RUN: list[AnyEvent] = one_trial(interval(0, 20, 30, 100, 50), evaluated(0, 30, 0.9), finished(0, 30, 0.9), ended())


def written(folder: Path) -> Path:
    path = folder / NAME
    with Journal(path) as journal:
        journal.append(RUN[:3])
        journal.append(RUN[3:])
    return path


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    assert list(read(written(tmp_path))) == RUN
    assert list(read(tmp_path)) == RUN


def test_a_line_says_its_event_and_carries_its_seal(tmp_path: Path) -> None:
    line = written(tmp_path).read_bytes().splitlines()[6]

    assert line.startswith(b'{"event":"EpochFinished"') and b'"accuracy":0.9' in line and b'"chain":"' in line


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_journal_cut_anywhere_keeps_every_whole_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = written(tmp_path_factory.mktemp("run"))
    whole = path.read_bytes()
    cut = data.draw(st.integers(whole.index(b"\n") + 1, len(whole)))
    path.write_bytes(whole[:cut])

    reader = read(path)
    lines = whole[:cut].count(b"\n")

    assert list(reader) == RUN[:lines]
    assert reader.reading.torn == whole[: len(whole)][sum(map(len, whole.splitlines(keepends=True)[:lines])) : cut]


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_byte_changed_in_any_whole_line_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = written(tmp_path_factory.mktemp("run"))
    whole = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(whole) - 2).filter(lambda at: whole[at] != ord("\n")))
    whole[position] ^= data.draw(st.sampled_from([1, 2, 4, 8]))
    if whole[position] == ord("\n"):
        return
    path.write_bytes(whole)
    number = whole[:position].count(b"\n") + 1

    remedy = f"resume_until={number - 1}" if number > 1 else "Begin another run"
    with pytest.raises(JournalDamaged, match=f"at line {number} of {len(RUN)}.*{remedy}"):
        list(read(path))


def test_a_line_taken_out_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4] + lines[5:]))

    with pytest.raises(JournalDamaged, match="line 5"):
        list(read(path))


def test_after_a_torn_line_the_journal_goes_on_and_what_was_torn_is_kept(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    reader = read(path)
    kept = list(reader)

    with Journal(path, reader.reading) as journal:
        journal.append([ended(101)])

    assert list(read(path)) == [*kept, ended(101)]
    assert (tmp_path / f"{NAME}.after-line-{len(kept)}").read_bytes() == whole.splitlines(keepends=True)[-1][:-20]


def test_a_damaged_journal_goes_on_before_the_damage_when_told_so(tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], b"nonsense\n", *lines[5:]]))
    reader = read(path, until=4)

    assert list(reader) == RUN[:4]
    with Journal(path, reader.reading) as journal:
        journal.append([ended()])
    assert list(read(path)) == [*RUN[:4], ended()]
    assert (tmp_path / f"{NAME}.after-line-4").read_bytes().startswith(b"nonsense\n")


def test_two_drivers_cannot_write_one_journal(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with Journal(path) as journal:
        journal.append(RUN)
        reader = read(path)
        list(reader)
        with pytest.raises(JournalInUse, match="another"):
            Journal(path, reader.reading)


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    # A limit on the size of files is the nearest thing to a full disk that a process can make for itself.
    script = f"""
import resource, signal, sys
from pathlib import Path
from aiperf.journal.journal import Journal, read
from aiperf.errors import JournalNotWritten
from tests.journal.test_journal import RUN
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path({str(tmp_path / NAME)!r})
with Journal(path) as journal:
    journal.append(RUN[:3])
    size = path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
    try:
        journal.append(RUN[3:])
    except JournalNotWritten as error:
        assert "resume=" in str(error)
        assert path.stat().st_size == size
    else:
        sys.exit("it was written")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    journal.append(RUN[3:])
assert list(read(path)) == RUN
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("written", "told"),
    [(b"", r"empty \(0 bytes\)"), (b'{"event":"RunStarted"', "first line is torn, after 21 bytes")],
    ids=["empty", "torn"],
)
def test_a_journal_without_a_whole_line_is_no_run(tmp_path: Path, written: bytes, told: str) -> None:
    (tmp_path / NAME).write_bytes(written)

    with pytest.raises(NoSuchRun, match=told + r"[^.]*begin another|" + told + r".*\. Begin another"):
        list(read(tmp_path))


def test_a_folder_without_a_journal_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NoSuchRun, match="runs/"):
        read(tmp_path)


@pytest.mark.parametrize("schema", SCHEMAS_READ)
def test_a_journal_of_every_schema_up_to_the_one_that_is_written_is_read(tmp_path: Path, schema: int) -> None:
    with Journal(tmp_path / NAME) as journal:
        journal.append([started(schema=schema)])

    (first,) = read(tmp_path)

    assert first == started(schema=schema)


@pytest.mark.parametrize("later", [started(schema=SCHEMA + 1), resumed(schema=SCHEMA + 1)], ids=["begun", "resumed"])
def test_a_journal_that_a_later_release_wrote_or_went_on_with_is_refused_by_its_number(
    tmp_path: Path, later: AnyEvent
) -> None:
    with Journal(tmp_path / NAME) as journal:
        journal.append([started(), later] if isinstance(later, RunResumed) else [later])

    with pytest.raises(JournalDamaged, match=f"has schema {SCHEMA + 1}; this release reads schemas 1 to {SCHEMA}"):
        list(read(tmp_path))
