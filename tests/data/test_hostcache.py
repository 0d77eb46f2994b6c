"""Records in shared memory: one copy for the processes of a run, none left behind, and none that another user made."""

from __future__ import annotations

import hashlib
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


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder like /dev/shm, and in it: every user can create files there."""
    with tempfile.TemporaryDirectory(dir=hostcache.SHARED_MEMORY) as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@pytest.fixture(autouse=True)
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run's private folder."""
    folder = tmp_path / "names"
    folder.mkdir(0o700)
    monkeypatch.setenv(hostcache.NAMES, str(folder))
    return folder


def test_a_record_is_absent_until_someone_writes_it(memory: Path) -> None:
    mine, other = HostCache("a set", _SIZES, memory), HostCache("a set", _SIZES, memory)

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
    mine, other = HostCache("a set", _SIZES, memory), HostCache("a set", _SIZES, memory)

    mine.close()
    assert mine.path.exists()
    other.close()
    assert not any(memory.iterdir())


def test_sets_that_differ_share_nothing(memory: Path) -> None:
    mine, other = HostCache("a set", _SIZES, memory), HostCache("another", _SIZES, memory)

    mine.write(0, b"abc")

    assert other.read(0) is None
    mine.close()
    other.close()


def _write_and_be_killed(folder: Path) -> None:
    cache = HostCache("a set", _SIZES, folder)
    cache.write(0, b"abc")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_leaves_records_to_its_run(memory: Path) -> None:
    def kill_one() -> None:
        process = multiprocessing.get_context("spawn").Process(target=_write_and_be_killed, args=(memory,))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert len(list(memory.iterdir())) == 1

    kill_one()
    again = HostCache("a set", _SIZES, memory)
    assert again.read(0) == b"abc"
    again.close()

    kill_one()
    HostCache("another", _SIZES, memory).close()
    assert not any(memory.iterdir())


def test_without_a_private_folder_nothing_is_shared(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(hostcache.NAMES)
    mine, other = HostCache("a set", _SIZES, memory), HostCache("a set", _SIZES, memory)

    mine.write(0, b"abc")

    assert other.read(0) is None
    mine.close()
    other.close()


def test_the_file_is_new_private_and_has_a_random_name(memory: Path) -> None:
    paths = set()
    for _ in range(2):
        before = os.umask(0)
        cache = HostCache("a set", _SIZES, memory)
        os.umask(before)
        assert cache.path.stat().st_mode == 0o100600
        paths.add(cache.path)
        cache.close()
    assert len(paths) == 2


def test_a_planted_file_of_another_user_is_not_opened(memory: Path) -> None:
    """Up to version 0.2 the name followed from the data set, and an existing file was opened."""
    digest = hashlib.sha256(f"a set {len(_SIZES)} {_SIZES.sum()}".encode()).hexdigest()[:24]
    planted = memory / f"aiperf-{os.getuid()}-{digest}"

    def plant() -> None:
        planted.write_bytes(bytes([1, 1, 1]) + b"badimage")
        planted.chmod(0o666)

    _as_another_user(plant)
    cache = HostCache("a set", _SIZES, memory)

    assert cache.read(0) is None
    cache.close()
    assert planted.exists()


def _other_owner(path: Path) -> None:
    path.unlink()
    path.touch(0o600)
    os.chown(path, _ANOTHER_USER, _ANOTHER_USER)


def _link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("replace", "reason"),
    [
        pytest.param(_other_owner, f"owner {_ANOTHER_USER}, mode 100600", id="owner"),
        pytest.param(lambda path: path.chmod(0o666), "mode 100666", id="mode"),
        pytest.param(lambda path: path.with_name("second").hardlink_to(path), "2 links", id="hard link"),
        pytest.param(_link, "symbolic links", id="symbolic link"),
    ],
)
def test_a_handed_over_file_is_verified_after_opening(
    memory: Path, replace: Callable[[Path], None], reason: str
) -> None:
    if reason.startswith("owner") and os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    first = HostCache("a set", _SIZES, memory)

    replace(first.path)

    with pytest.raises(BadConfiguration, match=reason):
        HostCache("a set", _SIZES, memory)
    first.close()


def test_names_are_taken_from_a_private_folder_only(memory: Path, names: Path) -> None:
    names.chmod(0o777)

    with pytest.raises(BadConfiguration, match=r"no other user can write to, not .* mode 40777"):
        HostCache("a set", _SIZES, memory)


def _as_another_user(act: Callable[[], None]) -> None:
    """Carry it out in a child process of another user. Skips the test without the right to."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(_ANOTHER_USER)
            os.setuid(_ANOTHER_USER)
            act()
            os._exit(0)
        except BaseException:  # noqa: BLE001  # the child must not continue as a second pytest
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
