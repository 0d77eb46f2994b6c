"""Sockets of a running run that others can reach, and absence of its token from files.

Sockets are read from the machine's own socket table.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiperf.journal.events import EpochFinished, RunEnded, TrialPrepared, WorkerJoined
from aiperf.journal.journal import read
from tests.rigs.foreign_client import tried
from tests.rigs.foreign_processes import REPOSITORY
from tests.rigs.processes import Listening, command_line, descendants, listening_sockets


@dataclass
class Going:
    """A run in its own process, which trains."""

    process: subprocess.Popen[str]
    folder: Path
    token: str
    scratch: Path
    seen: set[Listening]
    """Sockets on which one of its processes has listened so far."""

    def look(self) -> None:
        """Adds those on which one listens now."""
        look_at(self.process.pid, self.seen)


def look_at(run: int, seen: set[Listening]) -> None:
    seen.update(listening_sockets([run, *descendants(run)]))


def environment_of(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(entry.decode().split("=", 1) for entry in entries if b"=" in entry)


@pytest.fixture(scope="module")
def going(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Going]:
    """A local run whose worker has two ranks, joined by Horovod if it is installed.

    Its working folder contains modules named like ours and like libraries. No process may import them.
    """
    folder = tmp_path_factory.mktemp("open")
    for module in ("conf", "cluster", "searchers", "morphism", "msgspec", "torch", "yaml"):
        (folder / f"{module}.py").write_text("raise SystemExit('of another project')")
    mine = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    words = [
        "schedule.duration_seconds=900",
        "schedule.warmup_seconds=1",
        "trainer.ranks=2",
        f"runs={folder}",
        "name=open",
    ]
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "aiperf", *words],
            cwd=folder,
            env=mine | {"PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            text=True,
            start_new_session=True,
        )
    seen: set[Listening] = set()
    try:
        deadline = time.monotonic() + 600.0
        while not any(isinstance(event, TrialPrepared) for event in events_of(folder)):
            assert process.poll() is None, (folder / "said").read_text()
            assert time.monotonic() < deadline
            look_at(process.pid, seen)  # from its first process on: while it starts, and while its ranks meet
            time.sleep(0.1)
        ranks = [pid for pid in descendants(process.pid) if b"aiperf.train.ranks.rank" in command_line(pid)]
        there = environment_of(ranks[0])
        (run,) = folder.glob("*-open")
        token = next(
            found
            for pid in descendants(process.pid)
            if command_line(pid).startswith(b"ray::")
            and (found := environment_of(pid).get("RAY_AUTH_TOKEN")) is not None
        )
        yield Going(process, run, token, Path(there["AIPERF_SCRATCH"]), seen)
    finally:
        process.kill() if process.poll() is None else None
        process.wait()


def contents(file: Path) -> bytes:
    """Nothing for a folder or a socket, nor for a file that the run has removed since it was listed: it still trains."""
    try:
        return file.read_bytes() if file.is_file() else b""
    except FileNotFoundError:
        return b""


def events_of(folder: Path) -> list[object]:
    found = list(folder.glob("*-open/journal.jsonl"))
    return list(read(found[0].parent)) if found and found[0].stat().st_size else []


def test_the_table_names_a_socket_on_all_addresses_as_such() -> None:
    """The test below can fail."""
    with socket.create_server(("", 0)) as everywhere, socket.create_server(("127.0.0.1", 0)) as here:
        found = {one.port: one for one in listening_sockets([os.getpid()])}

        assert not found[everywhere.getsockname()[1]].is_loopback
        assert found[here.getsockname()[1]].is_loopback
    with socket.create_server(("::", 0), family=socket.AF_INET6) as everywhere:
        (one,) = [one for one in listening_sockets([os.getpid()]) if one.port == everywhere.getsockname()[1]]
        assert not one.is_loopback


def test_no_process_of_a_local_run_listens_beyond_loopback(going: Going) -> None:
    until = time.monotonic() + 600.0
    going.look()
    while time.monotonic() < until and not any(
        isinstance(one, EpochFinished) for one in events_of(going.folder.parent)
    ):
        time.sleep(0.1)
        going.look()

    programs = {one.program for one in going.seen}
    joined = next(one for one in events_of(going.folder.parent) if isinstance(one, WorkerJoined))
    assert joined.ranks == 2
    assert any("gcs_server" in program or "raylet" in program for program in programs)
    assert len(going.seen) > 5, programs
    assert [one for one in going.seen if not one.is_loopback] == []


def test_a_local_run_has_none_of_the_daemons_that_serve_others(going: Going) -> None:
    """The daemons take half of Ray's start time. Its agent, which a raylet needs, serves nothing."""
    told = {pid: command_line(pid).decode(errors="replace") for pid in descendants(going.process.pid)}

    for theirs in ("dashboard/dashboard.py", "log_monitor.py", "autoscaler/_private/monitor.py"):
        assert not [words for words in told.values() if theirs in words]
    agents = [pid for pid, words in told.items() if words.startswith("ray::DashboardAgent")]
    assert len(agents) == 1, "this release of Ray names its agent otherwise"
    assert listening_sockets(agents) == []


def test_no_request_of_a_stranger_ends_a_run_at_any_port(going: Going) -> None:
    """Before TLS, one empty StartSync at the port of the gcs or a raylet ended the run."""
    ports = {one.port: one for one in listening_sockets([going.process.pid, *descendants(going.process.pid)])}
    daemons = {one.pid for one in ports.values() if re.search("gcs_server|raylet", one.program)}
    assert len(daemons) == 2

    with ThreadPoolExecutor(8) as aside:
        found = dict(zip(ports, aside.map(lambda port: tried(f"127.0.0.1:{port}"), ports), strict=True))

    by_tls = {port for port, told in found.items() if told["tls"]}
    assert {one.pid for port, one in ports.items() if port in by_tls} > {going.process.pid, *daemons}
    for port, told in found.items():
        if ports[port].program.startswith("ray::") or ports[port].pid in daemons:
            assert set(told["grpc"].values()) == {None}, (ports[port], told)  # type: ignore[attr-defined]
            assert told["tls"] != "accepted", (ports[port], told)
    epochs = sum(isinstance(one, EpochFinished) for one in events_of(going.folder.parent))
    deadline = time.monotonic() + 300.0
    while sum(isinstance(one, EpochFinished) for one in events_of(going.folder.parent)) <= epochs:
        assert going.process.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    assert all(command_line(pid) for pid in daemons), "Ray's own processes still run"


def test_the_token_is_in_no_file_log_or_command_line_at_any_time(
    going: Going,
) -> None:
    """The last test of this module: it ends the run."""
    token = going.token.encode()
    assert len(token) == 64

    def holding() -> list[Path]:
        folders = (going.folder.parent, going.scratch)
        return [file for folder in folders for file in folder.rglob("*") if token in contents(file)]

    assert (going.scratch / "r").is_dir(), "Ray's logs are among what was looked through"
    assert holding() == []
    everybody = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    assert [pid for pid in everybody if token in command_line(pid)] == []

    os.kill(going.process.pid, signal.SIGINT)
    going.process.wait(300)

    *_, last = events_of(going.folder.parent)
    assert isinstance(last, RunEnded)
    assert (going.folder / "report.html").is_file()
    assert holding() == []
    assert not going.scratch.exists()
