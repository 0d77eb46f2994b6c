"""A journal is valid or names its damaged line, and no input makes it lose written lines."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.errors import JournalDamaged, JournalInUse, NoSuchRun
from aiperf.journal.events import SCHEMA, AnyEvent
from aiperf.journal.journal import NAME, Journal, read
from aiperf.journal.sealed_log import LONGEST_LINE
from tests.builders.journal import ended, evaluated, finished, interval, one_trial, resumed, started

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


def test_a_line_has_its_event_and_its_seal(tmp_path: Path) -> None:
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

    remedy = f"resume_until={number - 1}" if number > 1 else "Start another run"
    with pytest.raises(JournalDamaged, match=f"at line {number} of {len(RUN)}.*{remedy}"):
        list(read(path))


def test_a_line_taken_out_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4] + lines[5:]))

    with pytest.raises(JournalDamaged, match="line 5"):
        list(read(path))


def test_torn_line_is_kept_and_the_journal_continues(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    reader = read(path)
    kept = list(reader)

    with Journal(path, reader.reading) as journal:
        journal.append([ended(101)])

    assert list(read(path)) == [*kept, ended(101)]
    assert (tmp_path / f"{NAME}.after-line-{len(kept)}").read_bytes() == whole.splitlines(keepends=True)[-1][:-20]


def test_damaged_journal_continues_before_the_damage_on_request(tmp_path: Path) -> None:
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
        with pytest.raises(JournalInUse, match="Another driver"):
            Journal(path, reader.reading)


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    # A limit on file sizes is the closest simulation of a full disk within one process.
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
    [(b"", r"empty \(0 bytes\)"), (b'{"event":"RunStarted"', "is incomplete, 21 bytes")],
    ids=["empty", "torn"],
)
def test_a_journal_without_a_whole_line_is_no_run(tmp_path: Path, written: bytes, told: str) -> None:
    (tmp_path / NAME).write_bytes(written)

    with pytest.raises(NoSuchRun, match=told + r"[^.]*start another|" + told + r".*\. Start another"):
        list(read(tmp_path))


def test_a_folder_without_a_journal_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NoSuchRun, match="runs/"):
        read(tmp_path)


@pytest.mark.parametrize("schema", [SCHEMA - 1, SCHEMA + 1])
@pytest.mark.parametrize("at", ["begun", "resumed"])
def test_a_journal_of_another_schema_is_refused(tmp_path: Path, schema: int, at: str) -> None:
    """Neither an older nor a later schema disables a check: the journal is not read at all."""
    with Journal(tmp_path / NAME) as journal:
        journal.append([started(schema=schema)] if at == "begun" else [started(), resumed(schema=schema)])

    with pytest.raises(JournalDamaged, match=f"reads journals of schema {SCHEMA}. .* has schema {schema}"):
        list(read(tmp_path))


def test_a_line_of_two_gigabytes_takes_no_memory(tmp_path: Path) -> None:
    with Journal(tmp_path / NAME) as journal:
        journal.append([started()])
    with (tmp_path / NAME).open("ab") as file:
        file.truncate(file.tell() + 2**31)  # a sparse file that uses no disk space
    tracemalloc.start()

    with pytest.raises(JournalDamaged, match=r"line 2 .*a line has at most 16777216 bytes"):
        list(read(tmp_path))

    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 * LONGEST_LINE
