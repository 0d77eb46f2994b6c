"""Telemetry from a host's own disk arrives in the run's folder line by line, once, whatever the disks do meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiperf.system import shipping
from aiperf.system.shipping import Shipment

LINES = st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b" ") + b"\n"), max_size=30)


@given(LINES, st.integers(0, 20), st.integers(21, 64))
def test_what_arrives_is_at_any_time_the_whole_lines_that_were_recorded(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], torn: int, block: int
) -> None:
    """Of each line some bytes may have been written alone when it is shipped; blocks hold a line at least."""
    folder = tmp_path_factory.mktemp("shipping")
    arrived = folder / "run" / "telemetry" / "0.jsonl"
    shipment = Shipment(folder / "local.jsonl", arrived)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shipping, "BLOCK", block)
        for number, line in enumerate(lines):
            whole = b"".join(lines[:number])
            shipment.local.write_bytes(whole + line[:-1][:torn])
            if number % 3:  # not after every line
                shipment.ship()
                assert arrived.read_bytes() == whole


def test_what_a_disk_would_not_take_whole_is_shipped_again_and_stands_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipment = Shipment(tmp_path / "local.jsonl", tmp_path / "0.jsonl")
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
