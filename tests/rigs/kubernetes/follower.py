"""The command `python -m aiperf +cluster=kubernetes`, as a user types it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.rigs.namespaces import REPOSITORY


class Follower:
    """Process in its own folder. Use it in a `with` block, which ends the process."""

    def __init__(self, kubeconfig: Path, folder: Path, *words: str) -> None:
        self.folder = folder
        self._file = folder / "output.txt"
        with self._file.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "aiperf", "+cluster=kubernetes", *words],
                cwd=folder,
                env={
                    "PATH": "/usr/bin:/bin",
                    "HOME": str(folder),
                    "PYTHONPATH": str(REPOSITORY),
                    "KUBECONFIG": str(kubeconfig),
                },
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def output(self) -> str:
        return self._file.read_text()

    def until(self, text: str, seconds: float = 90.0) -> None:
        """Wait for a text in the output."""
        deadline = time.monotonic() + seconds
        while text not in self.output:
            assert time.monotonic() < deadline, self.output
            time.sleep(0.2)

    def end(self, seconds: float = 90.0) -> int:
        """Return the exit status after the process has ended by itself."""
        return self._process.wait(seconds)
