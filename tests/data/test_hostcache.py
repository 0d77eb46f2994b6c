"""Records in memory without a name: one copy for the processes of a run, none left behind, and none that another user made."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from aiperf.data import hostcache
from aiperf.data.hostcache import HostCache, MarkedCorrupt, is_held
from aiperf.own_files import NotOwn

_SIZES = np.array([3, 0, 5], np.int64)
_ANOTHER_USER = 65534


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Scratch folder of the run that this process belongs to."""
    folder = tmp_path / "scratch"
    folder.mkdir(0o700)
    monkeypatch.setenv(hostcache.SHARING, str(folder))
    return folder


@pytest.fixture
def holder() -> Iterator[Callable[[], tuple[BaseProcess, Connection]]]:
    """Start processes that hold the cache with the record b"abc". A message ends one, an end of the pipe kills it."""
    started: list[tuple[BaseProcess, Connection]] = []

    def start() -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        own, other = context.Pipe()
        process = context.Process(target=_hold, args=(other,))
        process.start()
        other.close()
        started.append((process, own))
        assert own.recv() == b"abc"
        return process, own

    yield start
    for process, own in started:
        own.close()
        process.join()


def _hold(pipe: Connection) -> None:
    cache = HostCache("a set", _SIZES)
    if cache.read(0) is None:
        cache.write(0, b"abc")
    pipe.send(cache.read(0))
    try:
        pipe.recv()
        cache.close()
        pipe.send("closed")
        pipe.recv()
    except EOFError:
        os.kill(os.getpid(), signal.SIGKILL)


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


def test_sets_that_differ_share_nothing() -> None:
    mine, other = HostCache("a set", _SIZES), HostCache("another", _SIZES)

    mine.write(0, b"abc")

    assert other.read(0) is None and not is_held("a third", _SIZES)
    mine.close()
    other.close()


def test_records_live_as_long_as_any_process_has_them(holder: Callable[[], tuple[BaseProcess, Connection]]) -> None:
    """The maker is killed while a second process reads, then a third takes its place."""
    maker, end = holder()
    _, second = holder()
    end.close()
    maker.join()
    third = HostCache("a set", _SIZES)
    second.send("close")
    assert second.recv() == "closed"

    assert third.read(0) == b"abc" and is_held("a set", _SIZES)
    fourth = HostCache("a set", _SIZES)
    third.close()
    assert fourth.read(0) == b"abc"
    fourth.close()

    assert not is_held("a set", _SIZES)
    last = HostCache("a set", _SIZES)
    assert last.read(0) is None
    last.close()


def test_makers_that_race_have_one_copy() -> None:
    made: list[HostCache] = []
    ready = threading.Barrier(8)

    def make() -> None:
        ready.wait()
        made.append(HostCache("a set", _SIZES))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made[0].write(0, b"abc")

    assert [cache.read(0) for cache in made] == [b"abc"] * 8
    for cache in made:
        cache.close()


def test_processes_of_no_run_or_of_two_share_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = HostCache("a set", _SIZES)
    mine.write(0, b"abc")
    (tmp_path / "other").mkdir(0o700)

    for folder in ("", str(tmp_path / "other")):
        monkeypatch.setenv(hostcache.SHARING, folder)
        other = HostCache("a set", _SIZES)
        assert other.read(0) is None
        other.close()
    alone = HostCache("a set", _SIZES, is_shared=False)
    assert alone.read(0) is None
    alone.close()
    mine.close()


def _entry(scratch: Path, name: str, descriptor: int) -> None:
    """Plant an entry for a descriptor of this process, as after a process id was given again."""
    (path,) = scratch.glob("images-*")
    path.write_text(f"{os.getpid()} {descriptor} {name}\n99999999 3 {name}\ntorn 4")


@pytest.mark.parametrize("what", ["name", "size", "kind", "closed"])
def test_an_entry_of_another_file_is_passed_over(scratch: Path, what: str) -> None:
    mine = HostCache("a set", _SIZES)
    mine.write(0, b"abc")
    name = Path(f"/proc/self/fd/{mine._file}").readlink().name.removeprefix("memfd:").removesuffix(" (deleted)")
    reading, writing = os.pipe()
    longer = os.memfd_create(name)
    os.ftruncate(longer, 1000)
    descriptor = {"name": mine._file, "size": longer, "kind": reading, "closed": 10**6}[what]
    _entry(scratch, "another" if what == "name" else name, descriptor)

    other = HostCache("a set", _SIZES)

    assert other.read(0) is None
    for file in (reading, writing, longer):
        os.close(file)
    other.close()
    mine.close()


def test_a_process_out_of_reach_is_named_and_not_shared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, before = HostCache("a set", _SIZES), Path.readlink
    mine.write(0, b"abc")

    def refuse(path: Path) -> Path:
        if path.parts[2] == str(os.getpid()):
            raise PermissionError(13, "Permission denied", str(path))
        return before(path)

    monkeypatch.setattr(Path, "readlink", refuse)
    other = HostCache("a set", _SIZES)

    assert other.read(0) is None
    assert f"'/proc/{os.getpid()}/fd/{mine._file}': Permission denied" in capsys.readouterr().err
    other.close()
    mine.close()


def test_short_memory_keeps_further_records_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostcache, "WATCHED_BYTES", 4)
    cache = HostCache("a set", _SIZES)
    monkeypatch.setattr(hostcache, "available_bytes", lambda: hostcache.LEAST_FREE - 1)

    cache.write(0, b"abc")
    cache.write(2, b"fghij")

    assert cache.read(0) == b"abc" and cache.read(2) is None
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
def test_a_planted_folder_is_refused(plant: Callable[[Path], None], reason: str, scratch: Path) -> None:
    if reason.startswith("owner") and os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    scratch.rmdir()
    plant(scratch)

    with pytest.raises(NotOwn, match=rf"must be a directory of user .*{reason}"):
        HostCache("a set", _SIZES)
