"""A new run has its own folder, even if another run begins in the same second."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from aiperf.planning.plan import make_folder

STARTED = """
import os, sys
from pathlib import Path
from aiperf.planning.plan import make_folder

ready, signal_ready = os.pipe()
waits, begins = os.pipe()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        os.close(begins)
        os.write(signal_ready, b".")
        os.read(waits, 1)  # until nobody can write to it any more
        os.write(1, f"{make_folder(Path(sys.argv[1]))}\\n".encode())
        os._exit(0)
    children.append(child)
for _ in children:
    os.read(ready, 1)
os.close(begins)  # all are waiting for that
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""
"""Eight forks of a process that has imported all they need."""


def test_eight_processes_that_start_at_once_get_eight_folders(tmp_path: Path) -> None:
    wanted = tmp_path / "runs" / "20261122-120000-digits"

    answer = subprocess.run([sys.executable, "-c", STARTED, wanted], stdout=subprocess.PIPE, text=True, check=True)

    made = set(answer.stdout.splitlines())
    assert made == {str(wanted), *(f"{wanted}.{number}" for number in range(2, 9))}
    assert {str(path) for path in wanted.parent.iterdir()} == made


def test_a_folder_is_never_one_that_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "a-b"
    made = [make_folder(folder) for _ in range(3)]
    (tmp_path / "a-b.4").write_text("a file in the way")

    assert [path.name for path in [*made, make_folder(folder)]] == ["a-b", "a-b.2", "a-b.3", "a-b.5"]
