"""Telemetry from a host's own disk reaches the run's folder line by line, once, despite disk errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.system import log
from aiperf.system.log import IncrementalCopy

LINES = st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b" ") + b"\n"), max_size=30)


@given(LINES, st.integers(0, 20), st.integers(21, 64))
def test_the_copy_is_always_whole_recorded_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], torn: int, block: int
) -> None:
    """A line may be written in part when it is copied. Blocks hold at least one line."""
    folder = tmp_path_factory.mktemp("shipping")
    arrived = folder / "run" / "telemetry" / "0.jsonl"
    shipment = IncrementalCopy(folder / "local.jsonl", arrived)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "BLOCK", block)
        for number, line in enumerate(lines):
            whole = b"".join(lines[:number])
            shipment.local.write_bytes(whole + line[:-1][:torn])
            if number % 3:  # not after every line
                shipment.ship()
                assert arrived.read_bytes() == whole


def test_a_rejected_write_is_repeated_and_stored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipment = IncrementalCopy(tmp_path / "local.jsonl", tmp_path / "0.jsonl")
    shipment.local.write_bytes(b"one\ntwo\n")
    write, left = os.write, [3]

    def full(file: int, content: bytes) -> int:
        if not left:
            raise OSError(28, "No space left on device")
        return write(file, content[: left.pop()])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        shipment.ship()
    monkeypatch.undo()
    shipment.ship()

    assert (tmp_path / "0.jsonl").read_bytes() == b"one\ntwo\n"
