"""Real runs in processes of their own, and what may happen to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import NAME, read

REPOSITORY = Path(__file__).parent.parent.parent
SMALL = (
    "dataset=synthetic",
    "dataset.training_images=512",
    "dataset.validation_images=128",
    "dataset.image=8",
    "start=digits_small",
    "schedule.epochs=[2,3,4]",
    "schedule.warmup_seconds=4",
)


class RealRun:
    """`python -m aiperf` with a folder of its own; ended, if need be, when the test is over."""

    def __init__(self, folder: Path, *words: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment`: on top of this process's own."""
        self._runs = folder
        self.output = folder / "output.txt"
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "aiperf", f"runs={folder / 'runs'}", *words],
                cwd=REPOSITORY,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    @property
    def folder(self) -> Path:
        """The run's folder."""
        (found,) = (self._runs / "runs").iterdir()
        return found

    def events(self) -> list[AnyEvent]:
        """The whole lines of the journal, now."""
        return list(read(self.folder))

    def until(self, happened: Callable[[list[AnyEvent]], bool], timeout: float = 90.0) -> list[AnyEvent]:
        """Waits until the journal says so."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if list((self._runs).glob(f"runs/*/{NAME}")):
                events = self.events()
                if happened(events):
                    return events
            assert self.process.poll() is None, self.output.read_text()
            time.sleep(0.1)
        raise AssertionError(f"it did not happen within {timeout} s:\n{self.output.read_text()}")

    def kill(self) -> None:
        """SIGKILL, to the driver alone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def interrupt(self) -> int:
        """Ctrl-C once, and the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=60)

    def wait(self, timeout: float = 120.0) -> int:
        """The exit status."""
        return self.process.wait(timeout=timeout)

    def end(self) -> None:
        """Leaves nothing behind."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
