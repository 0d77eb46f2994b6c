"""Runs with something else in the place of the journal, in the folder `run`."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import shutil
import socket
from pathlib import Path

_GOLDEN = Path(__file__).parents[2] / "golden" / "resumed-v5.jsonl"


def _journal(folder: Path, content: bytes) -> None:
    (folder / "run").mkdir()
    (folder / "run" / "journal.jsonl").write_bytes(content)


def _place(folder: Path) -> Path:
    (folder / "run").mkdir()
    return folder / "run" / "journal.jsonl"


def an_empty_journal(folder: Path) -> None:
    """As a driver leaves it that was killed at once."""
    _journal(folder, b"")


def a_journal_of_zeros(folder: Path) -> None:
    """As a power failure leaves it."""
    _journal(folder, bytes(4096))


def a_torn_first_line(folder: Path) -> None:
    """Only a part of the first line."""
    _journal(folder, _GOLDEN.read_bytes()[:100])


def a_journal_with_cr_lf(folder: Path) -> None:
    """As an editor of another system writes it."""
    _journal(folder, _GOLDEN.read_bytes().replace(b"\n", b"\r\n"))


def a_journal_with_a_mark(folder: Path) -> None:
    """A byte order mark."""
    _journal(folder, b"\xef\xbb\xbf" + _GOLDEN.read_bytes())


def a_gzipped_journal(folder: Path) -> None:
    """Compressed under the usual name."""
    _journal(folder, gzip.compress(_GOLDEN.read_bytes()))


def an_xz_journal(folder: Path) -> None:
    """Compressed under the usual name."""
    _journal(folder, lzma.compress(_GOLDEN.read_bytes()))


def a_zstd_journal(folder: Path) -> None:
    """Only the first bytes of the format."""
    _journal(folder, b"\x28\xb5\x2f\xfd\x04\x58" + bytes(range(200)))


def a_journal_in_utf_16(folder: Path) -> None:
    """As PowerShell's redirection writes it."""
    _journal(folder, _GOLDEN.read_text("utf-8").encode("utf-16"))


def a_rewritten_journal(folder: Path) -> None:
    """By a program that read and wrote its JSON."""
    _journal(
        folder, b"".join(json.dumps(json.loads(line)).encode() + b"\n" for line in _GOLDEN.read_bytes().splitlines())
    )


def plain_text_for_a_journal(folder: Path) -> None:
    """A log of Ray."""
    _journal(folder, b"2026-11-22 10:00:00,123\tINFO worker.py:1812 -- Started a local Ray instance.\n")


def json_of_another_program(folder: Path) -> None:
    """A structured log."""
    _journal(folder, b'{"time": 1, "level": "info", "msg": "hello"}\n')


def a_json_array(folder: Path) -> None:
    """A JSON array of objects."""
    _journal(folder, b'[{"trial": 1}, {"trial": 2}]\n')


def a_log_of_mlperf(folder: Path) -> None:
    """As its logging library writes it."""
    _journal(folder, b':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "INTERVAL_START", "key": "run_start"}\n')


def a_report_for_a_journal(folder: Path) -> None:
    """Copy of report.json under the journal's name."""
    content = b'{\n "run": {"name": "one"},\n "score": {"flops_per_second": 1.0}\n}\n'
    _journal(folder, content)
    (folder / "report.json").write_bytes(content)


def a_folder_for_a_journal(folder: Path) -> None:
    """journal.jsonl is a folder."""
    _place(folder).mkdir()


def a_fifo_for_a_journal(folder: Path) -> None:
    """Nobody writes to it."""
    os.mkfifo(_place(folder))


def a_socket_for_a_journal(folder: Path) -> None:
    """Nobody listens."""
    place, here = _place(folder), Path.cwd()
    os.chdir(place.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(place.name)
    finally:
        os.chdir(here)


def a_dangling_journal(folder: Path) -> None:
    """A link to an archive that is not mounted."""
    _place(folder).symlink_to("/archive/of/none/journal.jsonl")


def a_journal_in_a_loop(folder: Path) -> None:
    """A link to itself."""
    place = _place(folder)
    place.symlink_to(place.name)


def a_journal_cut_in_the_middle(folder: Path) -> None:
    """One line is missing."""
    lines = _GOLDEN.read_bytes().splitlines(keepends=True)
    _journal(folder, b"".join(lines[:10] + lines[11:]))


def two_runs_one_unreadable(folder: Path) -> None:
    """`runs/good` and `runs/bad`."""
    for name in ("good", "bad"):
        (folder / "runs" / name).mkdir(parents=True)
    shutil.copy(_GOLDEN, folder / "runs" / "good" / "journal.jsonl")
    (folder / "runs" / "bad" / "journal.jsonl").write_bytes(gzip.compress(b"x"))


def a_meter_without_a_form(folder: Path) -> None:
    """A table of a power meter, and no form that says what it measured."""
    _journal(folder, _GOLDEN.read_bytes())
    (folder / "run" / "power").mkdir()
    (folder / "run" / "power" / "rack.csv").write_text("unix_seconds,watts\n1,2\n2,2\n")
