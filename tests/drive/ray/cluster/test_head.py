"""A head and the nodes that join it by a file: on one host here, on hosts of their own in tests/cluster/test_slurm_real.py."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
import ray

from aiperf.__main__ import main
from aiperf.drive.ray.cluster import join_node
from aiperf.drive.ray.cluster.head import HeadAddress, head_ray
from aiperf.drive.ray.cluster.join_node import join
from aiperf.drive.ray.cluster.ray_environment import Authority, new_authority, tls_environment
from aiperf.errors import NoSuchRun, NoWorkers, RuntimeNotStarted
from aiperf.system.processes import family, name, state
from cluster.place import HEAD_FILE, HEAD_LOST, HeadPlace
from tests.rigs.foreign_processes import come
from tests.rigs.processes import comes_true


def joining(folder: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Join like a step of a batch script, before there is a head, or late."""
    command = [sys.executable, "-m", "aiperf", "join", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)


@pytest.mark.slow
def test_nodes_join_a_later_head_or_late_and_leave_with_it(tmp_path: Path) -> None:
    before, environment = joining(tmp_path), dict(os.environ)
    try:
        with head_ray(tmp_path, HeadPlace(nodes=2, fewest_nodes=2, patience_seconds=120.0)):
            told = tmp_path / HEAD_FILE
            assert len(alive()) == 2
            assert stat.S_IMODE(told.stat().st_mode) == 0o600
            late = joining(tmp_path, environment)
            assert comes_true(lambda: len(alive()) == 3, 120.0)

        assert not told.exists()
        assert before.wait(30) == late.wait(30) == 0
    finally:
        for node in (before, late):
            node.kill()
            node.wait()


def alive() -> list[str]:
    return [each["NodeID"] for each in ray.nodes() if each["Alive"]]  # type: ignore[no-untyped-call]


@pytest.mark.slow  # Ray tries for a while
def test_a_stranger_without_the_heads_token_is_refused(tmp_path: Path) -> None:
    with head_ray(tmp_path, HeadPlace(nodes=1, fewest_nodes=1, patience_seconds=0.0)):
        told = json.loads((tmp_path / HEAD_FILE).read_text())

        tls = tls_environment(Authority(**told["authority"]), tmp_path, told["address"].rpartition(":")[0])
        assert "RAN" not in come(told["address"], inside=[], token="0" * 64, tls=tls).stdout
        assert "RAN" in come(told["address"], inside=[], token=told["token"], tls=tls).stdout


@pytest.mark.slow
def test_a_run_that_lacks_nodes_names_the_present_ones(tmp_path: Path) -> None:
    told = rf"1 of 2 have joined after 0 s \({socket.gethostname()}\).*cluster.fewest_nodes"
    with pytest.raises(NoWorkers, match=told), head_ray(tmp_path, HeadPlace(2, fewest_nodes=2, patience_seconds=0.0)):
        raise AssertionError("it began without its nodes")

    assert not (tmp_path / HEAD_FILE).exists()
    with head_ray(tmp_path, HeadPlace(nodes=2, fewest_nodes=1, patience_seconds=0.0)):
        assert (tmp_path / HEAD_FILE).exists()


def write_head_file(folder: Path, port: int) -> None:
    (folder / HEAD_FILE).touch(0o600)
    (folder / HEAD_FILE).write_bytes(msgspec.json.encode(HeadAddress(f"127.0.0.1:{port}", "x", new_authority())))


def test_a_node_starts_its_ray_again_while_the_head_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A raylet that dies, for example out of memory, must not cost the node.

    Lives here last one second, as if half a minute.
    """
    tries = tmp_path / "tries"
    dies = "{ sleep 600 & sleep 1; exit 1; }"
    script = f"echo again >> {tries}; [ $(wc -l < {tries}) -lt 6 ] && {dies}; rm {tmp_path / HEAD_FILE}; sleep 60"
    monkeypatch.setattr(join_node, "_command", lambda head, folder: ["bash", "-c", script])
    monkeypatch.setattr(join_node, "PAUSE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as head:
        write_head_file(tmp_path, head.getsockname()[1])
        with pytest.raises(RuntimeNotStarted, match="with status 1 after 3 starts"):
            join(tmp_path, patience_seconds=600.0)

        monkeypatch.setattr(join_node, "GIVE_UP_SECONDS", (1.0, 120.0))
        join(tmp_path, patience_seconds=600.0)

    assert tries.read_text() == "again\n" * 6
    assert "with status 1: it is started again" in capfd.readouterr().err


def test_a_node_leaves_a_head_whose_port_stays_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cut of the head's network: its file and its process exist, and Ray on the node continues."""
    monkeypatch.setattr(join_node, "refusal", lambda *_: None)
    monkeypatch.setattr(join_node, "_command", lambda head, folder: ["sleep", "600"])
    monkeypatch.setattr(join_node, "PORT_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as head:
        write_head_file(tmp_path, head.getsockname()[1])
        threading.Timer(4.0, head.close).start()
        began = time.monotonic()

        assert main(["join", str(tmp_path)]) == HEAD_LOST

    assert time.monotonic() - began > 4.0, "it stays while the head answers"
    assert "does not answer any more, and has not ended its run" in capsys.readouterr().err


@pytest.mark.slow  # Ray gives up its start after half a minute, and leaves processes that are never reaped
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_head_that_is_slow_to_start_is_started_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stopped: list[int] = []

    def stop_the_first_raylet() -> None:
        while not stopped:
            for pid in list(family(os.getpid())):
                if name(pid) == "raylet":
                    os.kill(pid, signal.SIGSTOP)
                    stopped.append(pid)
                    break
            time.sleep(0.005)

    threading.Thread(target=stop_the_first_raylet, daemon=True).start()
    with head_ray(tmp_path, HeadPlace(nodes=1, fewest_nodes=1, patience_seconds=300.0)):
        assert (tmp_path / HEAD_FILE).exists()
        assert "it is started again" in capfd.readouterr().err
        assert state(stopped[0]) in ("", "Z"), "nothing of the first attempt is left"
    gc.collect()  # here, since the warnings are expected


def test_a_head_that_was_killed_is_not_joined(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound and not listening: who comes is refused
        taken.bind(("127.0.0.1", 0))
        write_head_file(tmp_path, taken.getsockname()[1])
        began = time.monotonic()

        with pytest.raises(NoSuchRun, match="none answers after 1 s"):
            join(tmp_path, patience_seconds=1.0)

    assert time.monotonic() - began < 60.0, "Ray alone would have tried for ten minutes"
    assert not any(name.startswith("AIPERF_SCRATCH") for name in os.environ)


def test_a_node_exits_with_a_status_for_a_lost_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        write_head_file(tmp_path, head.getsockname()[1])

        def ray_that_ends_with_its_head(*_: object) -> list[str]:
            head.close()
            return [sys.executable, "-c", "raise SystemExit(1)"]

        monkeypatch.setattr(join_node, "_command", ray_that_ends_with_its_head)

        status = main(["join", str(tmp_path)])

    assert status == HEAD_LOST
    assert (
        f"does not answer any more, and has not ended its run. To resume the run: python -m aiperf resume={tmp_path}"
        in (capsys.readouterr().err)
    )


def test_a_tied_node_leaves_when_its_connection_is_cut(tmp_path: Path) -> None:
    """Wait for a head like a host whose driver was killed before there was one."""
    node = subprocess.Popen(
        [sys.executable, "-m", "aiperf", "join", str(tmp_path), "--tied"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert node.stdin is not None
    node.stdin.close()

    assert node.wait(120) == 0
    assert node.stderr is not None
    with node.stderr as said:
        assert said.read() == b""
