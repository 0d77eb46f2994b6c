"""A wrong file is refused with a description of the file."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiperf.errors import AiperfError, NotAJournal
from aiperf.journal.journal import NAME, Journal, read
from aiperf.journal.sealed_log import why_no_journal
from tests.builders.journal import ended, evaluated, finished, interval, one_trial


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Bytes of a journal."""
    path = tmp_path_factory.mktemp("run") / NAME
    with Journal(path) as journal:
        journal.append(one_trial(interval(0, 20, 30, 100, 50), evaluated(0, 30, 0.9), finished(0, 30, 0.9), ended()))
    return path.read_bytes()


def rewritten(whole: bytes) -> bytes:
    return b"".join(json.dumps(json.loads(line)).encode() + b"\n" for line in whole.splitlines())


OTHER: dict[str, Callable[[bytes], bytes]] = {
    "empty (0 bytes)": lambda whole: b"",
    "first bytes b'\\x00": lambda whole: bytes(4096),
    "gzip -dc FILE > journal.jsonl": gzip.compress,
    "xz -dc FILE > journal.jsonl": lzma.compress,
    "bzip2 -dc FILE > journal.jsonl": bz2.compress,
    "zstd -dc FILE > journal.jsonl": lambda whole: b"\x28\xb5\x2f\xfd\x04\x58" + whole,
    "first bytes b'PK": lambda whole: b"PK\x03\x04" + whole,
    "first bytes b'\\xff\\xfe": lambda whole: whole.decode().encode("utf-16"),
    "first bytes b'\\xef\\xbb\\xbf": lambda whole: b"\xef\xbb\xbf" + whole,
    'first bytes b\'{"event": "RunSt': rewritten,
    "first bytes b'2026-11-22 10:00": lambda whole: b"2026-11-22 10:00:00,123 INFO worker.py:1812 -- Started\n",
    "first bytes b'<!doctype html>": lambda whole: b"<!doctype html>\n<html></html>\n",
}


@pytest.mark.parametrize("what", OTHER)
def test_a_file_that_is_no_journal_is_named_for_what_it_is(tmp_path: Path, whole: bytes, what: str) -> None:
    (tmp_path / NAME).write_bytes(OTHER[what](whole))

    with pytest.raises(NotAJournal) as refused:
        list(read(tmp_path))

    assert what.strip() in str(refused.value) and str(tmp_path) in str(refused.value)


@given(content=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
@settings(max_examples=300, deadline=None)
def test_whatever_a_file_holds_it_is_refused_in_words(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("run")
    (folder / NAME).write_bytes(content)

    with pytest.raises(AiperfError):
        list(read(folder))


def test_a_journal_is_no_other_file(whole: bytes) -> None:
    assert why_no_journal(whole) is None and why_no_journal(whole[:100]) is None


def fifo(path: Path) -> None:
    os.mkfifo(path)


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))


PLACES: dict[str, Callable[[Path], None]] = {
    "a directory": lambda path: path.mkdir(),
    "a FIFO": fifo,
    "a socket": bound,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "leads back to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("what", PLACES)
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path, what: str) -> None:
    PLACES[what](tmp_path / NAME)

    with pytest.raises(NotAJournal, match=what):
        read(tmp_path)
