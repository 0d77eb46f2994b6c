"""Real runs with Ray in environments of containers and clusters that are not like a developer's machine."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aiperf.journal.events import EpochFinished, RunEnded
from aiperf.journal.journal import read
from aiperf.train.collectives import horovod_collective
from tests.rigs.foreign_processes import REPOSITORY

SHORT = [
    "schedule.duration_seconds=600",
    "schedule.warmup_seconds=1",
    "schedule.epochs=[1]",
    "limits.trials=1",
    "runs=runs",
]
SHM = "mount -t tmpfs -o size=64m tmpfs /dev/shm"
TO_HOST = "> /proc/sys/kernel/hostname"
AS_NOBODYS = "unshare --user --map-user=471147 --map-group=471147"
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "--uts", "--net", "true"]).returncode != 0,
    reason="needs root for namespaces (unshare)",
)


def run(
    folder: Path, before: str, by: str = "", *, network: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A run after the shell's commands `before` in namespaces of its own. `by`: beginning of its command line."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    program = f'{before}; exec {by} "$0" -m aiperf "$@"'
    return subprocess.run(
        ["unshare", "--mount", "--uts", *(["--net"] if network else []), "sh", "-ec", program, sys.executable, *SHORT],
        cwd=folder,
        env=mine | {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=500,
    )


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "by"),
    [
        pytest.param("umask 022", AS_NOBODYS, id="a UID without a passwd entry"),
        pytest.param(f"printf NODE_1.cluster-a.internal {TO_HOST}", "", id="capitals, underscore and dots"),
        pytest.param(f"printf {'n' * 64} {TO_HOST}", "", id="a host name of 64 letters"),
        pytest.param(f"printf 10 {TO_HOST}", "", id="a host name that is a number"),
        pytest.param(SHM, "", id="/dev/shm of 64 MB"),
        pytest.param(f"{SHM}; printf localhost {TO_HOST}", AS_NOBODYS, id="all of a container"),
    ],
)
def test_a_run_with_ray_trains_to_its_end_in(before: str, by: str, tmp_path: Path) -> None:
    done = run(tmp_path, before, by, HOME="/nonexistent")

    assert done.returncode in (0, 1), done.stdout + done.stderr
    (journal,) = tmp_path.glob("runs/*/journal.jsonl")
    events = list(read(journal.parent))
    assert isinstance(events[-1], RunEnded), done.stdout + done.stderr
    assert events[-1].reason == "trials" and any(isinstance(event, EpochFinished) for event in events)


@needs_root
def test_a_loopback_that_is_down_is_named_within_seconds(tmp_path: Path) -> None:
    began = time.monotonic()

    done = run(tmp_path, "true", network=True)

    assert done.returncode == 2 and time.monotonic() - began < 60.0
    assert "'127.0.0.1' cannot be reached (Network is unreachable). Ray's processes" in done.stderr
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, 524])
def test_a_temporary_folder_without_locks_is_named_with_the_cure(number: int, tmp_path: Path) -> None:
    code = f"""
import fcntl
from pathlib import Path
def flock(file, operation): raise OSError({number}, "no locks")
fcntl.flock = flock
from aiperf.__main__ import main
raise SystemExit(main({[*SHORT]!r}))
"""
    environment = os.environ | {"RAY_TMPDIR": "", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert done.returncode == 2
    assert (
        "on a file system with locks (flock), but '/tmp' has none (no locks). Set RAY_TMPDIR and TMPDIR" in done.stderr
    )


@pytest.mark.parametrize("name", ["nowhere.invalid", "10", "192.0.2.77", "x" * 300])
def test_horovod_is_left_out_where_the_host_has_no_address(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Gloo would end each rank by a signal."""
    pytest.importorskip("horovod.torch")
    assert horovod_collective.missing(on_cuda=False) is None
    monkeypatch.setattr("socket.gethostname", lambda: name)

    assert "the name of this host must be one of its addresses" in str(horovod_collective.missing(on_cuda=False))
