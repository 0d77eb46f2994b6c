"""A temporary folder goes with its owner, and so do the processes that bear its mark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aiperf.scratch import Scratch, marked
from tests.rigs.processes import comes_true

OWNER = """
import os, subprocess, sys
from pathlib import Path
from aiperf.scratch import Scratch
scratch = Scratch(Path(sys.argv[1]))
child = subprocess.Popen(["sleep", "600"], env={**os.environ, **scratch.environment}, start_new_session=True)
(scratch.path / "deep").mkdir()
(scratch.path / "deep" / "file").write_text("kept by nobody")
print(scratch.path, child.pid, flush=True)
sys.stdin.read()
"""


def owner(parent: Path) -> tuple[subprocess.Popen[str], Path, int]:
    """A process with a folder and a child, and both."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    folder, child = process.stdout.readline().split()
    return process, Path(folder), int(child)


def ended(process: subprocess.Popen[str]) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        pipe.close()


def janitors(folder: Path) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder).encode() in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
        except OSError:
            continue
    return found


def test_closing_removes_folder_processes_and_janitor(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, **scratch.environment})
    assert comes_true(lambda: marked(scratch.path) == (child.pid,))  # its environment is read once it has begun
    assert scratch.path.stat().st_mode & 0o777 == 0o700

    scratch.close(patience_seconds=0.1)
    scratch.close()

    assert child.wait() == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
    assert comes_true(lambda: janitors(scratch.path) == [])


def test_killing_the_owner_removes_the_folder_and_its_processes(tmp_path: Path) -> None:
    process, folder, child = owner(tmp_path)
    os.kill(child, signal.SIGSTOP)

    process.kill()
    ended(process)

    assert comes_true(lambda: not folder.exists() and marked(folder) == () and janitors(folder) == [])


def test_the_next_folder_removes_one_without_a_janitor(tmp_path: Path) -> None:
    process, folder, child = owner(tmp_path)
    (janitor,) = janitors(folder)
    os.kill(janitor, signal.SIGKILL)
    process.kill()
    ended(process)
    os.kill(child, signal.SIGKILL)
    assert folder.exists()

    Scratch(tmp_path).close()

    assert not folder.exists()


@pytest.mark.parametrize("what", ["living", "nameless", "another host's"])
def test_the_next_folder_removes_no_folder_with_a_living_owner(tmp_path: Path, what: str) -> None:
    process, folder, child = owner(tmp_path)
    if what != "living":
        (janitor,) = janitors(folder)
        os.kill(janitor, signal.SIGKILL)
        process.kill()
        (folder / "owner").write_text("" if what == "nameless" else "somewhere.else")

    Scratch(tmp_path).close()

    assert (folder / "deep" / "file").exists()
    process.kill()
    ended(process)
    os.kill(child, signal.SIGKILL)
