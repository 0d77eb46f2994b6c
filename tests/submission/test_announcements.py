"""The log of announcements: nothing can be taken out of it, changed or moved unseen, and nothing is lost silently."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiperf.errors import AnnouncementsDamaged, AnnouncementsNotWritten
from aiperf.journal.sealed_log import ORIGIN, sealed
from aiperf.submission.announcement_file import LARGEST, add, read_log
from aiperf.submission.announcements import Announcements, HeadWitnessed, RunWithdrawn, parse
from tests.builders.submission import key_file


def witness(log: Announcements) -> HeadWitnessed:
    return HeadWitnessed(number=len(log.entries) + 1, previous=log.head, at_unix=1.0 + len(log.entries))


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A log of four entries, by two keys."""
    folder = tmp_path_factory.mktemp("log")
    keys = [key_file(folder, "one"), key_file(folder, "two")]
    for number in range(4):
        add(folder / "log", keys[number % 2], witness)
    return (folder / "log").read_bytes()


def test_each_entry_follows_from_the_one_before_it(four: bytes) -> None:
    log = parse(four, "log")

    assert [each.entry.number for each in log.entries] == [1, 2, 3, 4]
    assert [each.entry.previous for each in log.entries] == [ORIGIN.decode(), *(each.id for each in log.entries[:3])]
    assert (log.head, log.end, log.torn) == (log.entries[-1].id, len(four), b"")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_changed_byte_is_rejected_by_line_or_shortens_the_log(four: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(four) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != four[at]))
    changed = four[:at] + bytes([byte]) + four[at + 1 :]

    try:
        log = parse(changed, "log")
    except AnnouncementsDamaged as error:
        assert "'log', line " in str(error)
        return

    assert at == len(four) - 1, "only the newline of the last line may go: then that line is torn"
    assert (len(log.entries), log.torn) == (3, changed.split(b"\n")[-1])


def test_a_last_entry_changed_after_signing_is_rejected(four: bytes) -> None:
    *before, last = four.splitlines(keepends=True)
    assert last.count(b'"at_unix":4.0') == 1
    body = last.partition(b',"chain":')[0] + b"}"
    chain = before[-1][-67:-3]
    assert sealed(chain, body)[0] == last
    changed, _ = sealed(chain, body.replace(b'"at_unix":4.0', b'"at_unix":5.0'))

    with pytest.raises(AnnouncementsDamaged, match="'log', line 4: its signature is not valid"):
        parse(b"".join([*before, changed]), "log")


@pytest.mark.parametrize("order", [[0, 2, 3], [1, 2, 3], [0, 2, 1, 3], [0, 1, 1, 2], [0, 3]])
def test_a_removed_moved_or_repeated_line_is_reported(four: bytes, order: list[int]) -> None:
    lines = four.splitlines(keepends=True)

    with pytest.raises(AnnouncementsDamaged, match="its hash does not follow from the line before it"):
        parse(b"".join(lines[number] for number in order), "log")


def test_what_was_not_announced_cannot_be_withdrawn(tmp_path: Path) -> None:
    key = key_file(tmp_path)

    with pytest.raises(AnnouncementsDamaged, match="the run was announced before it"):
        add(
            tmp_path / "log",
            key,
            lambda log: RunWithdrawn(number=1, previous=log.head, at_unix=1.0, announcement="0" * 64, reason=""),
        )

    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("left", [1, 40, -1])
def test_a_torn_last_line_is_moved_next_to_the_log_and_reported(four: bytes, tmp_path: Path, left: int) -> None:
    torn = four.splitlines()[-1][:left]
    (tmp_path / "log").write_bytes(b"".join(four.splitlines(keepends=True)[:3]) + torn)

    signed, kept = add(tmp_path / "log", key_file(tmp_path), witness)

    assert signed.entry.number == 4
    assert kept is not None
    assert kept.read_bytes() == torn
    assert [each.entry.number for each in read_log(tmp_path / "log").entries] == [1, 2, 3, 4]


def test_a_disk_that_takes_no_more_leaves_the_log_as_it_was(four: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(four)
    key_file(tmp_path)
    # Write in a process with a file size limit of 100 more bytes, so that a real write ends inside the line.
    asked = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from aiperf.errors import AnnouncementsNotWritten\n"
        "from aiperf.submission.announcement_file import add\n"
        "from tests.submission.test_announcements import witness\n"
        "folder, most = Path(sys.argv[1]), int(sys.argv[2])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))\n"
        "try:\n"
        "    add(folder / 'log', folder / 'key', witness)\n"
        "except AnnouncementsNotWritten as error:\n"
        "    print(error)\n"
    )

    result = subprocess.run(
        [sys.executable, "-B", "-c", asked, tmp_path, str(len(four) + 100)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert "could not be written (File too large). Nothing was announced" in result.stdout
    assert (tmp_path / "log").read_bytes() == four


def test_a_log_of_more_than_its_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.truncate(LARGEST + 1)

    with pytest.raises(AnnouncementsNotWritten, match=r"has at most 33554432 bytes, but .* has 33554433"):
        add(tmp_path / "log", None, witness)


@pytest.mark.parametrize("content", [b"{}", b"notes", b"\0"])
def test_another_file_without_a_newline_is_no_torn_log(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log").write_bytes(content)

    with pytest.raises(AnnouncementsDamaged, match="line 1: it does not begin as `announce` writes it"):
        add(tmp_path / "log", key_file(tmp_path), witness)

    assert [path.name for path in tmp_path.glob("log*")] == ["log"]


def test_a_refused_writer_takes_no_entry_from_another(tmp_path: Path) -> None:
    """One writer creates the log and is refused, while another waits for its lock."""
    key = key_file(tmp_path)
    context = multiprocessing.get_context("spawn")
    other = context.Process(target=_announce, args=[tmp_path, 1])

    def refused(log: Announcements) -> HeadWitnessed:
        other.start()
        while other.is_alive() and not _is_open_in(other.pid, tmp_path / "log"):
            time.sleep(0.01)
        raise AnnouncementsNotWritten("refused")

    with pytest.raises(AnnouncementsNotWritten, match="refused"):
        add(tmp_path / "log", key, refused)
    other.join(120)

    assert other.exitcode == 0
    assert len(read_log(tmp_path / "log").entries) == 1


def _is_open_in(pid: int | None, path: Path) -> bool:
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # the process closes files meanwhile
            if each.samefile(path):
                return True
    return False


def test_announcements_made_at_once_all_stand_in_one_chain(tmp_path: Path) -> None:
    key_file(tmp_path)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_announce, args=[tmp_path, 5]) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)

    assert [writer.exitcode for writer in writers] == [0] * 3
    assert len(read_log(tmp_path / "log").entries) == 15


def _announce(folder: Path, times: int) -> None:
    for _ in range(times):
        add(folder / "log", folder / "key", witness)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(AnnouncementsNotWritten, match=r"cannot be opened \(.*\)\. Create its folder"):
        add(tmp_path / "none" / "log", key_file(tmp_path), witness)


def test_an_entry_of_a_later_format_is_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(AnnouncementsDamaged, match=r"this release reads format 1\. This line has format 2"):
        add(
            tmp_path / "log",
            key_file(tmp_path),
            lambda log: HeadWitnessed(format=2, number=1, previous=log.head, at_unix=1.0),
        )


def test_an_entry_can_be_checked_with_stock_tools(four: bytes, tmp_path: Path) -> None:
    line = four.splitlines()[1]
    document = json.loads(line)
    entry = line.removeprefix(b'{"entry":')[: line.rindex(b',"signature":') - len(b'{"entry":')]
    (tmp_path / "entry.sig").write_text(document["signature"])
    body = line.partition(b',"chain":')[0] + b"}"

    checked = subprocess.run(
        ["ssh-keygen", "-Y", "check-novalidate", "-n", "aiperf", "-s", tmp_path / "entry.sig"], input=entry, check=False
    )

    assert checked.returncode == 0
    assert hashlib.sha256(document["entry"]["previous"].encode() + body).hexdigest() == document["chain"]
