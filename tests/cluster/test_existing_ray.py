"""A run on a Ray that others have started, real: it joins, trains, and leaves the Ray as it was."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from aiperf.__main__ import main
from aiperf.drive.ray.cluster.head import own_address
from aiperf.journal.events import RunEnded, RunStarted, WorkerJoined
from aiperf.journal.journal import read
from tests.rigs import namespaces as hosts_rig
from tests.rigs.namespaces import REPOSITORY
from tests.rigs.real_run import small

SHORT = small("schedule.duration_seconds=3600", "limits.trials=1")


@contextmanager
def somebodys_ray(host: str | None = None) -> Iterator[tuple[str, dict[str, str]]]:
    """Its head's address, and the environment in which one may speak to it."""
    folder = tempfile.mkdtemp(prefix="r-", dir="/tmp")
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    host = host or own_address() or "127.0.0.1"
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"]
    options = [f"--node-ip-address={host}", f"--temp-dir={folder}", "--num-cpus=2", "--include-dashboard=false"]
    process = subprocess.Popen([*start, *options], env=environment, stdout=subprocess.DEVNULL)
    try:
        while not Path(folder, "ray_current_cluster").exists():
            assert process.poll() is None, "it starts"
            time.sleep(0.5)
        yield f"{host}:{port}", environment
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def run(environment: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aiperf", "+cluster=ray", f"runs={folder}", *words],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=1800,
    )


def test_what_cannot_be_set_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for of_others in ("cluster.partition=gpu", "cluster.hosts=[n1]", "cluster.fewest_nodes=1", "cluster.setup=[x]"):
        assert main(["+cluster=ray", of_others]) == 2
        assert of_others.partition("=")[0] in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_joins_it_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    with somebodys_ray() as (address, environment):
        done = run(environment, tmp_path, f"cluster.address={address}", *SHORT)
        stranger = run(environment | {"RAY_AUTH_TOKEN": "0" * 64}, tmp_path, f"cluster.address={address}", *SHORT)
        again = run(
            environment, tmp_path, f"cluster.address={address}", *SHORT, "cluster.nodes=2", "cluster.patience_seconds=0"
        )

    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = tmp_path.iterdir()
    events = list(read(folder))
    assert sum(isinstance(event, WorkerJoined) for event in events) == 1
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason == "trials"
    assert stranger.returncode == 2, stranger.stdout + stranger.stderr
    assert "the token given is not its token" in stranger.stderr
    assert again.returncode == 2
    assert "1 of 2 have joined after 0 s" in again.stderr, "it still stands, and lacks a node"


@pytest.mark.slow
def test_runs_that_begin_at_once_take_turns(tmp_path: Path) -> None:
    with somebodys_ray() as (address, environment), ThreadPoolExecutor(2) as pool:
        words = (f"cluster.address={address}", *SHORT)
        patient = (*words, "cluster.patience_seconds=1200")
        both = [pool.submit(run, environment, tmp_path, *patient, f"name={name}") for name in ("one", "two")]
        while not list(tmp_path.glob("*/journal.jsonl")) and not any(each.done() for each in both):
            time.sleep(0.2)
        third = run(environment, tmp_path, *words, "cluster.patience_seconds=0", "name=three")
        done = [each.result() for each in both]

    turns = []
    for folder in tmp_path.iterdir():
        events = list(read(folder))
        began, last = events[0], events[-1]
        assert isinstance(began, RunStarted) and isinstance(last, RunEnded) and last.reason == "trials", done
        assert (folder / "report.html").is_file()
        turns.append((began.started_unix, began.started_unix + last.at))
    first, second = sorted(turns)
    assert first[1] <= second[0]
    assert third.returncode == 2 and re.search(
        "others use 1 of 1 after 0 s|another run holds that Ray", third.stderr
    ), third


@pytest.mark.slow
@pytest.mark.skipif(hosts_rig.missing() is not None, reason=f"no hosts: {hosts_rig.missing()}")
def test_why_a_ray_cannot_be_joined_is_named_within_ten_seconds(
    tmp_path: Path,
) -> None:
    with (
        hosts_rig.hosts(tmp_path, 1) as rig,
        somebodys_ray(rig.here) as (address, environment),
        socket.socket() as other,
    ):
        other.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{other.getsockname()[1]}"
        other.listen()
        wrong = environment | {"RAY_AUTH_TOKEN": "0" * 64}
        none = {name: value for name, value in environment.items() if not name.startswith("RAY_")}
        elsewhere = rig.entering(rig.names[0])
        deadline = time.monotonic() + 120.0
        while causes(environment, address):
            assert time.monotonic() < deadline, "it comes up"

        assert causes(none, address) == "requires a token, and no token was given (RAY_AUTH_MODE=disabled)"
        assert causes(wrong, address) == "requires a token, and the token given is not its token"
        assert causes(environment, address, elsewhere) == f"this host ({rig.names[0]}) is none of them: {rig.here}"
        assert causes(environment, nobody) == "does not answer as Ray's gcs within 4 s"
        assert causes(environment, "127.0.0.1:1") == "nothing answers at 127.0.0.1:1: Connection refused"


JOINING = """
import re, sys, time
from aiperf.drive.ray.cluster.existing import existing_ray
from aiperf.errors import RuntimeNotStarted
from cluster.place import Existing
began = time.monotonic()
try:
    with existing_ray(Existing(sys.argv[1], 1, 1, 60.0)):
        print()
except RuntimeNotStarted as error:
    assert time.monotonic() - began < 10.0, time.monotonic() - began
    laws = "requires a token, and [^.]*", r"this host .*: [\\d.]+\\d", "does not [^.]*", "nothing answers .*refused"
    found = re.search("|".join(laws), str(error))
    print(found[0] if found else error)
"""


def causes(environment: dict[str, str], address: str, inside: Sequence[str] = ()) -> str:
    """Return a part of the error of a join in its own process. Empty if it succeeds."""
    words = [*inside, sys.executable, "-c", JOINING, address]
    done = subprocess.run(words, env=environment | {"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
