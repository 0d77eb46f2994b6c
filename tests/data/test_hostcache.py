"""Records in shared memory: one copy for the processes of a run, none left behind, and none that another user made."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from aiperf.data import hostcache
from aiperf.data.hostcache import HostCache, MarkedCorrupt
from aiperf.errors import BadConfiguration

_SIZES = np.array([3, 0, 5], np.int64)
_ANOTHER_USER = 65534


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder like /dev/shm, and in it: every user can create files there. This process belongs to a run."""
    with tempfile.TemporaryDirectory(dir=hostcache.SHARED_MEMORY) as name:
        folder = Path(name)
        folder.chmod(0o1777)
        monkeypatch.setattr(hostcache, "SHARED_MEMORY", folder)
        monkeypatch.setenv(hostcache.SHARING, "a run")
        yield folder


def test_a_record_is_absent_until_someone_writes_it() -> None:
    mine, other = HostCache("a set", _SIZES), HostCache("a set", _SIZES)

    assert mine.read(0) is None and mine.state(0) is None
    other.write(0, b"abc")
    other.mark_corrupt(2)

    assert mine.read(0) == b"abc" and mine.state(0) is True
    with pytest.raises(MarkedCorrupt):
        mine.read(2)
    assert bytes(mine.records()[:3]) == b"abc"
    mine.close()
    other.close()


def test_the_last_to_close_gives_the_memory_back(memory: Path) -> None:
    mine, other = HostCache("a set", _SIZES), HostCache("a set", _SIZES)

    mine.close()
    assert any(memory.glob("*/*"))
    other.close()
    assert not any(memory.iterdir())


def test_sets_that_differ_share_nothing() -> None:
    mine, other = HostCache("a set", _SIZES), HostCache("another", _SIZES)

    mine.write(0, b"abc")

    assert other.read(0) is None
    mine.close()
    other.close()


def _write_and_be_killed(folder: Path) -> None:
    hostcache.SHARED_MEMORY = folder
    cache = HostCache("a set", _SIZES)
    cache.write(0, b"abc")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_leaves_records_to_its_run(memory: Path) -> None:
    def kill_one() -> None:
        process = multiprocessing.get_context("spawn").Process(target=_write_and_be_killed, args=(memory,))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert len(list(memory.glob("*/*"))) == 1

    kill_one()
    again = HostCache("a set", _SIZES)
    assert again.read(0) == b"abc"
    again.close()

    kill_one()
    HostCache("another", _SIZES).close()
    assert not any(memory.iterdir())


def test_processes_of_no_run_or_of_two_share_nothing(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = HostCache("a set", _SIZES)
    mine.write(0, b"abc")

    for group in ("", "another run"):
        monkeypatch.setenv(hostcache.SHARING, group)
        other = HostCache("a set", _SIZES)
        assert other.read(0) is None
        other.close()
    mine.close()
    assert not any(memory.iterdir())


def test_a_cache_of_one_process_is_in_no_folder(memory: Path) -> None:
    cache = HostCache("a set", _SIZES, is_shared=False)
    cache.write(0, b"abc")

    assert cache.read(0) == b"abc" and bytes(cache.records()[:3]) == b"abc"
    assert not any(memory.iterdir())
    cache.close()


def test_the_file_is_in_a_private_folder(memory: Path) -> None:
    before = os.umask(0)
    cache = HostCache("a set", _SIZES)
    os.umask(before)

    (path,) = memory.glob("*/*")
    assert path.stat().st_mode == 0o100600
    assert path.parent.stat().st_mode == 0o40700
    assert "a run" not in path.parent.name
    cache.close()


def _other_owner(folder: Path) -> None:
    folder.mkdir(0o700)
    os.chown(folder, _ANOTHER_USER, _ANOTHER_USER)


@pytest.mark.parametrize(
    ("plant", "reason"),
    [
        pytest.param(_other_owner, f"owner {_ANOTHER_USER} and mode 40700", id="owner"),
        pytest.param(lambda folder: (folder.mkdir(), folder.chmod(0o777)), "mode 40777", id="mode"),
        pytest.param(lambda folder: folder.symlink_to("/tmp"), "mode 120777", id="symbolic link"),
        pytest.param(lambda folder: folder.touch(0o700), "mode 100", id="file"),
    ],
)
def test_a_planted_folder_is_refused(plant: Callable[[Path], None], reason: str, memory: Path) -> None:
    if reason.startswith("owner") and os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    cache = HostCache("a set", _SIZES)
    (folder,) = memory.iterdir()
    cache.close()

    plant(folder)

    with pytest.raises(BadConfiguration, match=rf"must be in a folder of user .*{reason}"):
        HostCache("a set", _SIZES)
