"""Records in shared memory: one copy for all processes, and none left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from aiperf.data.hostcache import HostCache, MarkedCorrupt, cache_path

_SIZES = np.array([3, 0, 5], np.int64)


def test_a_record_is_absent_until_someone_writes_it(tmp_path: Path) -> None:
    mine, other = HostCache("a set", _SIZES, tmp_path), HostCache("a set", _SIZES, tmp_path)

    assert mine.read(0) is None and mine.state(0) is None
    other.write(0, b"abc")
    other.mark_corrupt(2)

    assert mine.read(0) == b"abc" and mine.state(0) is True
    with pytest.raises(MarkedCorrupt):
        mine.read(2)
    assert bytes(mine.records()[:3]) == b"abc"
    mine.close()
    other.close()


def test_the_last_to_close_gives_the_memory_back(tmp_path: Path) -> None:
    mine, other = HostCache("a set", _SIZES, tmp_path), HostCache("a set", _SIZES, tmp_path)

    mine.close()
    assert mine.path.exists()
    other.close()
    assert not any(tmp_path.iterdir())


def test_sets_that_differ_share_nothing(tmp_path: Path) -> None:
    mine, other = HostCache("a set", _SIZES, tmp_path), HostCache("another", _SIZES, tmp_path)

    mine.write(0, b"abc")

    assert other.read(0) is None
    mine.close()
    other.close()


def _write_and_be_killed(folder: Path) -> None:
    cache = HostCache("a set", _SIZES, folder)
    cache.write(0, b"abc")
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_run_left_is_taken_over_or_removed(tmp_path: Path) -> None:
    def kill_one() -> None:
        process = multiprocessing.get_context("spawn").Process(target=_write_and_be_killed, args=(tmp_path,))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert cache_path("a set", _SIZES, tmp_path).exists()

    kill_one()
    again = HostCache("a set", _SIZES, tmp_path)
    assert again.read(0) == b"abc"
    again.close()

    kill_one()
    HostCache("another", _SIZES, tmp_path).close()
    assert not any(tmp_path.iterdir())
