"""Real runs in processes of their own, and what may happen to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import NAME, read
from aiperf.scratch import MARK
from tests.rigs.processes import command_line, descendants
from tests.rigs.ray_cluster import GAVE_UP, TRIES

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


def small(*words: str) -> tuple[str, ...]:
    """Return SMALL with these words, which replace those of the same option, since each may be given once."""
    options = {word.partition("=")[0] for word in words}
    return (*(word for word in SMALL if word.partition("=")[0] not in options), *words)


PATIENCE_SECONDS = 900.0
"""Far more than anything takes that a test waits for: a slow machine is no failure."""

CTRL_C = 130
"""Exit status of a run that the signal ended, with or without a score."""


class RealRun:
    """`python -m aiperf` in its own folder. It is ended at the end of the test if necessary."""

    def __init__(self, folder: Path, *words: str, environment: Mapping[str, str] | None = None) -> None:
        """`environment`: on top of this process's own."""
        self._runs = folder
        self._messages = words
        self._environment = {**os.environ, **(environment or {})}
        self._tries_left = TRIES
        self.output = folder / "output.txt"
        self.process = self._begun()

    def _begun(self) -> subprocess.Popen[bytes]:
        self._tries_left -= 1
        with self.output.open("ab") as output:
            self._output_before = output.tell()
            return subprocess.Popen(
                [sys.executable, "-m", "aiperf", f"runs={self._runs / 'runs'}", *self._messages],
                cwd=REPOSITORY,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._environment,
            )

    def _begins_again(self) -> bool:
        """Return whether it ended only because of Ray's own start limit.

        It is then started again, and has written nothing.
        """
        said = self.output.read_bytes()[self._output_before :]
        if not self._tries_left or GAVE_UP.encode() not in said:
            return False
        self.process = self._begun()
        return True

    @property
    def folder(self) -> Path:
        """The run's folder."""
        (found,) = (self._runs / "runs").iterdir()
        return found

    def events(self) -> list[AnyEvent]:
        """The whole lines of the journal, now."""
        return list(read(self.folder))

    def until(self, happened: Callable[[list[AnyEvent]], bool], timeout: float = PATIENCE_SECONDS) -> list[AnyEvent]:
        """Wait until the journal fulfils the condition."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if list((self._runs).glob(f"runs/*/{NAME}")):
                events = self.events()
                if happened(events):
                    return events
            assert self.process.poll() is None or self._begins_again(), self.output.read_text()
            time.sleep(0.1)
        raise AssertionError(f"it did not happen within {timeout} s:\n{self.output.read_text()}")

    def kill(self) -> None:
        """SIGKILL, to the driver alone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def interrupt(self) -> int:
        """Ctrl-C once, and the exit status: see CTRL_C."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def wait(self, timeout: float = PATIENCE_SECONDS) -> int:
        """The exit status."""
        status = self.process.wait(timeout=timeout)
        return self.wait(timeout) if self._begins_again() else status

    def end(self) -> None:
        """Leaves nothing behind."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


Begin = Callable[..., RealRun]
"""Begins a real run with these words."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark in the environment of each process of a run: the run's temporary folder."""

    entry: bytes

    @property
    def folder(self) -> Path:
        """Return that folder."""
        return Path(self.entry.decode().partition("=")[2])


def rank_of(run: RealRun) -> int:
    """The process of one of its ranks."""
    return next(pid for pid in descendants(run.process.pid) if b"aiperf.train.ranks.rank" in command_line(pid))


def mark_of(run: RealRun) -> Mark:
    """Return the value from the environment of a rank."""
    environment = Path(f"/proc/{rank_of(run)}/environ").read_bytes().split(b"\0")
    return Mark(next(entry for entry in environment if entry.startswith(f"{MARK}=".encode())))


@dataclass(frozen=True, slots=True)
class Left:
    """Remains of a finished run."""

    processes: tuple[bytes, ...] = ()
    """Command lines of the processes with its mark."""
    unreaped: tuple[int, ...] = ()
    """Ended processes, which show no mark and remain until their new parent has reaped them."""
    folders: tuple[Path, ...] = ()


def left_behind(mark: Mark, *pids: int) -> Left:
    """Return the remains once they no longer decrease. Empty if all is well."""
    deadline = time.monotonic() + PATIENCE_SECONDS / 3
    while (left := _left_now(mark, pids)) != Left() and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _left_now(mark: Mark, pids: tuple[int, ...]) -> Left:
    processes = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.entry in file.read_bytes().split(b"\0"):
                processes.append(command_line(int(file.parent.name)))
        except OSError:
            continue
    there = tuple(pid for pid in pids if Path(f"/proc/{pid}").exists())
    return Left(tuple(processes), there, (mark.folder,) if mark.folder.exists() else ())
