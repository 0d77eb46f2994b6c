"""A head and the nodes that join it by a file: on one host here, on hosts of their own in tests/cluster/test_slurm_real.py."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ray

from aiperf.__main__ import main
from aiperf.drive.ray import join_node
from aiperf.drive.ray.head import HEAD, head_ray
from aiperf.drive.ray.join_node import join
from aiperf.errors import NoSuchRun, NoWorkers, RuntimeNotStarted
from cluster.place import HEAD_LOST, Head
from tests.drive.elsewhere import come


def joining(folder: Path) -> subprocess.Popen[bytes]:
    """As a batch script's step does it, before there is a head."""
    return subprocess.Popen([sys.executable, "-m", "aiperf", "join", str(folder)], stdout=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_node_joins_the_head_that_comes_up_later_and_leaves_with_it(tmp_path: Path) -> None:
    node = joining(tmp_path)
    try:
        with head_ray(tmp_path, Head(nodes=2, fewest_nodes=2, patience_seconds=120.0)):
            told = tmp_path / HEAD
            alive = [each for each in ray.nodes() if each["Alive"]]  # type: ignore[no-untyped-call]
            assert len(alive) == 2
            assert stat.S_IMODE(told.stat().st_mode) == 0o600

        assert not told.exists()
        assert node.wait(30) == 0
    finally:
        node.kill()
        node.wait()


@pytest.mark.slow  # Ray tries for a while
def test_a_stranger_without_the_heads_token_is_refused(tmp_path: Path) -> None:
    with head_ray(tmp_path, Head(nodes=1, fewest_nodes=1, patience_seconds=0.0)):
        told = json.loads((tmp_path / HEAD).read_text())

        assert "RAN" not in come(told["address"], inside=[], token="0" * 64).stdout
        assert "RAN" in come(told["address"], inside=[], token=told["token"]).stdout


@pytest.mark.slow
def test_a_run_that_lacks_nodes_says_who_is_there(tmp_path: Path) -> None:
    told = rf"found 1 of 2 after 0 s \({socket.gethostname()}\).*cluster.fewest_nodes"
    with pytest.raises(NoWorkers, match=told), head_ray(tmp_path, Head(2, fewest_nodes=2, patience_seconds=0.0)):
        raise AssertionError("it began without its nodes")

    assert not (tmp_path / HEAD).exists()
    with head_ray(tmp_path, Head(nodes=2, fewest_nodes=1, patience_seconds=0.0)):
        assert (tmp_path / HEAD).exists()


def test_a_ray_that_gives_its_start_up_is_begun_again_and_one_that_refuses_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    tries = tmp_path / "tries"
    gives_up = "{ sleep 600 & sleep 1; exit 1; }"
    script = f"echo again >> {tries}; [ $(wc -l < {tries}) -lt 3 ] && {gives_up}; rm {tmp_path / HEAD}; sleep 60"
    monkeypatch.setattr(join_node, "_command", lambda head, folder: ["bash", "-c", script])
    with socket.create_server(("127.0.0.1", 0)) as head:
        (tmp_path / HEAD).write_text(json.dumps({"address": f"127.0.0.1:{head.getsockname()[1]}", "token": "x"}))
        with pytest.raises(RuntimeNotStarted, match=r"with status 1, .* \(1 tries\)"):
            join(tmp_path, patience_seconds=600.0)

        monkeypatch.setattr(join_node, "GIVE_UP_SECONDS", (1.0, 120.0))
        join(tmp_path, patience_seconds=600.0)

    assert tries.read_text() == "again\n" * 3
    assert capfd.readouterr().err.count("it is begun again") == 1


def test_a_head_that_was_killed_is_not_joined(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound and not listening: who comes is refused
        taken.bind(("127.0.0.1", 0))
        (tmp_path / HEAD).write_text(json.dumps({"address": f"127.0.0.1:{taken.getsockname()[1]}", "token": "x"}))
        began = time.monotonic()

        with pytest.raises(NoSuchRun, match="none that answers after 1 s"):
            join(tmp_path, patience_seconds=1.0)

    assert time.monotonic() - began < 60.0, "Ray alone would have tried for ten minutes"
    assert not any(name.startswith("AIPERF_SCRATCH") for name in os.environ)


def test_a_node_whose_head_has_gone_without_ending_its_run_says_so_by_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as head:
        (tmp_path / HEAD).write_text(json.dumps({"address": f"127.0.0.1:{head.getsockname()[1]}", "token": "x"}))

        def ray_that_ends_with_its_head(*_: object) -> list[str]:
            head.close()
            return [sys.executable, "-c", "raise SystemExit(1)"]

        monkeypatch.setattr(join_node, "_command", ray_that_ends_with_its_head)

        status = main(["join", str(tmp_path)])

    assert status == HEAD_LOST
    assert (
        f"answers no more, and has not ended its run. It can be gone on with: python -m aiperf resume={tmp_path}"
        in (capsys.readouterr().err)
    )


def test_a_node_leaves_when_the_connection_of_who_started_it_is_cut(tmp_path: Path) -> None:
    """It waits for a head here, as a host does whose driver was killed before there was one."""
    node = subprocess.Popen(
        [sys.executable, "-m", "aiperf", "join", str(tmp_path), "--tied"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert node.stdin is not None
    node.stdin.close()

    assert node.wait(120) == 0
    assert node.stderr is not None
    with node.stderr as said:
        assert said.read() == b""
