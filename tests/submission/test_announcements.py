"""The log of announcements: nothing can be taken out of it, changed or moved unseen, and nothing is lost silently."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiperf.errors import AnnouncementsDamaged, AnnouncementsNotWritten
from aiperf.submission.announcement_file import add, read_log
from aiperf.submission.announcements import ORIGIN, Announcements, HeadWitnessed, RunWithdrawn, continues, parse
from aiperf.submission.signer import signer_of
from tests.submission.keys import key_file, new_signer


def witness(log: Announcements) -> HeadWitnessed:
    return HeadWitnessed(number=len(log.entries) + 1, previous=log.head, at_unix=1.0 + len(log.entries))


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A log of four entries, by two keys."""
    folder = tmp_path_factory.mktemp("log")
    signers = [new_signer(folder, "one"), new_signer(folder, "two")]
    for number in range(4):
        add(folder / "log", signers[number % 2], witness)
    return (folder / "log").read_bytes()


def test_each_entry_follows_from_the_one_before_it(four: bytes) -> None:
    log = parse(four, "log")

    assert [each.entry.number for each in log.entries] == [1, 2, 3, 4]
    assert [each.entry.previous for each in log.entries] == [ORIGIN, *(each.id for each in log.entries[:3])]
    assert (log.head, log.end, log.torn) == (log.entries[-1].id, len(four), b"")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_log_with_any_byte_changed_is_refused_by_its_line_or_is_shorter(four: bytes, data: st.DataObject) -> None:
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


def test_an_entry_that_was_changed_after_it_was_signed_is_refused_where_no_later_one_would_show_it(four: bytes) -> None:
    assert four.count(b'"at_unix":4.0') == 1

    with pytest.raises(AnnouncementsDamaged, match="'log', line 4: its signature is not good"):
        parse(four.replace(b'"at_unix":4.0', b'"at_unix":5.0'), "log")


@pytest.mark.parametrize("order", [[0, 2, 3], [1, 2, 3], [0, 2, 1, 3], [0, 1, 1, 2], [0, 3]])
def test_a_line_that_is_removed_moved_or_repeated_is_told(four: bytes, order: list[int]) -> None:
    lines = four.splitlines(keepends=True)

    with pytest.raises(AnnouncementsDamaged, match="a line was removed, moved or put in"):
        parse(b"".join(lines[number] for number in order), "log")


def test_lines_cut_off_the_end_are_seen_by_whoever_has_a_later_copy(four: bytes) -> None:
    lines = four.splitlines(keepends=True)
    whole, cut = parse(four, "log"), parse(b"".join(lines[:3]), "log")

    assert continues(whole, cut)
    assert not continues(cut, whole)


def test_what_was_not_announced_cannot_be_withdrawn(tmp_path: Path) -> None:
    signer = new_signer(tmp_path)

    with pytest.raises(AnnouncementsDamaged, match="was not announced before it"):
        add(
            tmp_path / "log",
            signer,
            lambda log: RunWithdrawn(number=1, previous=log.head, at_unix=1.0, announcement="0" * 64, reason=""),
        )

    assert read_log(tmp_path / "log").entries == ()


@pytest.mark.parametrize("left", [1, 40, -1])
def test_a_torn_last_line_is_set_aside_beside_the_log_and_said(four: bytes, tmp_path: Path, left: int) -> None:
    torn = four.splitlines()[-1][:left]
    (tmp_path / "log").write_bytes(b"".join(four.splitlines(keepends=True)[:3]) + torn)

    signed, kept = add(tmp_path / "log", new_signer(tmp_path), witness)

    assert signed.entry.number == 4
    assert kept is not None
    assert kept.read_bytes() == torn
    assert [each.entry.number for each in read_log(tmp_path / "log").entries] == [1, 2, 3, 4]


def test_a_disk_that_takes_no_more_leaves_the_log_as_it_was(four: bytes, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(four)
    key_file(tmp_path)
    # In a process of its own, whose files may grow by 100 bytes only: a real write that ends in the middle of the line.
    asked = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from aiperf.errors import AnnouncementsNotWritten\n"
        "from aiperf.submission.announcement_file import add\n"
        "from aiperf.submission.signer import signer_of\n"
        "from tests.submission.test_announcements import witness\n"
        "folder, most = Path(sys.argv[1]), int(sys.argv[2])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))\n"
        "try:\n"
        "    add(folder / 'log', signer_of(folder / 'key'), witness)\n"
        "except AnnouncementsNotWritten as error:\n"
        "    print(error)\n"
    )

    said = subprocess.run(
        [sys.executable, "-B", "-c", asked, tmp_path, str(len(four) + 100)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert "could not be written (File too large). Nothing was announced" in said.stdout
    assert (tmp_path / "log").read_bytes() == four


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
    signer = signer_of(folder / "key")
    for _ in range(times):
        add(folder / "log", signer, witness)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(AnnouncementsNotWritten, match="in a folder that is there"):
        add(tmp_path / "none" / "log", new_signer(tmp_path), witness)


def test_an_entry_of_a_later_format_is_refused_as_such(tmp_path: Path) -> None:
    with pytest.raises(AnnouncementsDamaged, match="it has format 2; this release reads format 1"):
        add(
            tmp_path / "log",
            new_signer(tmp_path),
            lambda log: HeadWitnessed(format=2, number=1, previous=log.head, at_unix=1.0),
        )


def test_an_entry_can_be_checked_with_stock_tools(four: bytes) -> None:
    line = four.splitlines()[1]
    entry = json.loads(line)
    body = line[: line.rindex(b',"signature":')] + b"}"

    assert json.loads(body) == {name: value for name, value in entry.items() if name != "signature"}
    assert entry["signature"].startswith("-----BEGIN SSH SIGNATURE-----\n")
