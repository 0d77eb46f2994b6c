"""Whole runs over real ssh, on hosts with their own networks, processes and sshd.

With AIPERF_SSH=required they fail instead of being skipped if such hosts cannot be made.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiperf.journal.events import RunEnded, RunResumed, TrialPrepared, WorkerJoined, WorkerLost
from aiperf.journal.journal import read
from aiperf.report.gather import gather
from tests.rigs.namespaces import REPOSITORY
from tests.rigs.ssh import SshRig, missing, ssh_hosts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        missing() is not None and os.environ.get("AIPERF_SSH") != "required", reason=f"no hosts with ssh: {missing()}"
    ),
]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshRig]:
    """Three hosts."""
    with ssh_hosts(tmp_path_factory.mktemp("ssh"), 3) as rig:
        yield rig


def command(rig: SshRig, where: str, *words: str) -> subprocess.Popen[str]:
    """Python -m aiperf, as it is typed on one of the hosts."""
    typed = shlex.join([sys.executable, "-m", "aiperf", *words])
    there = f"cd {shlex.quote(str(rig.folder))} && PYTHONPATH={shlex.quote(str(REPOSITORY))} {typed}"
    return subprocess.Popen(
        rig.words(where, there),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def on_hosts(rig: SshRig, *names: str) -> list[str]:
    return [
        "+cluster=hosts",
        f"cluster.hosts=[{','.join(names)}]",
        f"cluster.ssh=[-F,{rig.folder}/ssh_config]",
        f"cluster.setup=['export PYTHONPATH={REPOSITORY}']",
        "cluster.connect_seconds=3",
        "schedule.warmup_seconds=10",
    ]


def folder(rig: SshRig, name: str) -> Path:
    (found,) = (rig.folder / "runs").glob(f"*-{name}")
    return found


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str] | None = None, seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()[0]
        time.sleep(0.5)


def trains(rig: SshRig, name: str, hosts: set[str], since: int = 0) -> Callable[[], bool]:
    """Return whether trials of a run train on all of these hosts, by the lines of its journal from there on."""

    def asked() -> bool:
        journals = list((rig.folder / "runs").glob(f"*-{name}/journal.jsonl"))
        events = list(read(journals[0].parent))[since:] if journals else []
        joined = {event.host for event in events if isinstance(event, WorkerJoined)}
        return hosts <= joined and any(isinstance(event, TrialPrepared) for event in events)

    return asked


def all_left(rig: SshRig) -> bool:
    """Return whether the hosts are as before. A loaded host may take time to end Ray."""
    deadline = time.monotonic() + 120.0
    while (still := left(rig)) and time.monotonic() < deadline:
        time.sleep(0.5)
    assert still == []
    return True


def left(rig: SshRig) -> list[str]:
    """Return the processes on the hosts other than sshd."""
    said = []
    for name in rig.names:
        for pid in rig.pids(name):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if words and "sshd" not in words:
                said.append(f"{name}: {words}")
    return said


def test_one_command_runs_over_two_hosts_and_readmits_one(rig: SshRig) -> None:
    first, *others = rig.names
    process = command(rig, first, *on_hosts(rig, *others), "schedule.duration_seconds=150", "name=whole")
    wait_for(trains(rig, "whole", set(others)), process)
    run = folder(rig, "whole")
    lines = len(list(read(run)))

    rig.off(others[0])
    rig.on(others[0])
    wait_for(trains(rig, "whole", {others[0]}, since=lines), process)
    said, _ = process.communicate(timeout=600)

    assert process.returncode == 0, said
    assert re.search(r"^score [\d.]+ [GMT]?FLOPS", said, flags=re.MULTILINE), said
    events = list(read(run))
    assert isinstance(events[-1], RunEnded)
    assert events[-1].reason == "duration"
    assert gather(iter(events)).score.valid
    assert any(isinstance(event, WorkerLost) for event in events)
    assert {event.host for event in events if isinstance(event, WorkerJoined)} == set(others), "the head trains nothing"
    assert (run / "report.html").is_file()
    assert not (run / "ray-head.json").exists(), "the token goes with the run"
    kept = (run / "logs" / f"{others[0]}.log").read_text()
    assert "Ray runtime started" in kept
    assert re.search(rf"aiperf: {others[0]} ended with status \d+; again in \d+ s", kept), kept
    assert all_left(rig)


def test_a_killed_drivers_hosts_leave_and_the_run_is_resumed(rig: SshRig) -> None:
    first, second, third = rig.names
    words = on_hosts(rig, second, third)
    process = command(rig, first, *words, "schedule.duration_seconds=200", "name=killed")
    wait_for(trains(rig, "killed", {second, third}), process)
    driver = next(
        pid for pid in rig.pids(first) if b"\0+cluster=hosts\0" in Path(f"/proc/{pid}/cmdline").read_bytes()[:300]
    )

    os.kill(driver, signal.SIGKILL)
    process.communicate(timeout=60)
    assert all_left(rig)
    again = command(rig, third, f"resume={folder(rig, 'killed')}")
    said, _ = again.communicate(timeout=600)

    assert again.returncode == 0, said
    events = list(read(folder(rig, "killed")))
    (resumed,) = [event for event in events if isinstance(event, RunResumed)]
    assert resumed.machine["host"] == third
    assert f"the driver was down for {resumed.down_seconds:.0f} s" in said, said
    *_, last = events
    assert isinstance(last, RunEnded)
    assert last.reason == "duration"
    assert all_left(rig)


def test_hosts_that_cannot_join_are_named_before_the_start(rig: SshRig) -> None:
    first, second, third = rig.names
    nobody = ".".join([*rig.address[third].split(".")[:3], "77"])
    typed = command(rig, first, *on_hosts(rig, second, nobody), "name=nobody")
    said, _ = typed.communicate(timeout=300)
    assert typed.returncode == 2, said
    assert f"1 of 2 could not join:\n  {nobody}: ssh failed: ssh: connect to host {nobody} port 2222: " in said

    (rig.folder / "wrong_config").write_text(
        (rig.folder / "ssh_config").read_text().replace(f"{rig.folder}/key", f"{rig.folder}/strangers_key")
    )
    words = [word.replace("ssh_config", "wrong_config") for word in on_hosts(rig, second)]
    typed = command(rig, first, *words, "name=key")
    said, _ = typed.communicate(timeout=300)
    assert typed.returncode == 2, said
    assert re.search(rf"{second}: ssh failed: .*Permission denied \(publickey\)", said), said

    typed = command(rig, first, *on_hosts(rig, second), "cluster.python=/usr/bin/false", "name=python")
    said, _ = typed.communicate(timeout=300)
    assert typed.returncode == 2, said
    assert f"{second}: it has a Python that cannot load the benchmark" in said

    typed = command(rig, first, *on_hosts(rig, second), "runs=/tmp/private", "name=private")
    said, _ = typed.communicate(timeout=300)
    assert typed.returncode == 2, said
    assert f"{second}: it does not see the run's folder" in said

    assert not [*(rig.folder / "runs").glob("*-nobody"), *(rig.folder / "runs").glob("*-key")]
    assert all_left(rig)
