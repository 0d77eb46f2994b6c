"""The command line of a user: in a folder of its own, and at a real terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiperf.journal.events import AnyEvent
from aiperf.journal.journal import NAME, Journal


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a command."""

    status: int
    out: str
    err: str


User = Callable[..., Answer]
"""Types the words after `python -m aiperf`."""


def write_run(folder: Path, events: Sequence[AnyEvent]) -> Path:
    """Write a run's folder with these events."""
    folder.mkdir(parents=True)
    with Journal(folder / NAME) as journal:
        journal.append(events)
    return folder


MARK = "AIPERF_TEST_TERMINAL"
CTRL_C = b"\x03"


def _take_the_terminal() -> None:
    """Set up the process like a login.

    The terminal belongs to this session, and unhandled signals end it, even if the tests' caller ignores them (`nohup
    make test`).
    """
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Terminal:
    """Command in its own session, used in a `with` block. It is killed at the end of the block."""

    def __init__(self, words: Sequence[str], folder: Path, size: tuple[int, int] = (80, 24)) -> None:
        """`words`: after `python -m aiperf`, typed in `folder`. `size`: columns, lines."""
        self.mark = f"{MARK}={uuid.uuid4()}"
        self.said = b""
        self._screen, theirs = pty.openpty()
        self.resize(size)
        name, _, value = self.mark.partition("=")
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "aiperf", *words],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_the_terminal,
            env={**os.environ, "TERM": "xterm", name: value},
        )
        os.close(theirs)

    def resize(self, size: tuple[int, int]) -> None:
        """The window is drawn to another size: columns, lines."""
        fcntl.ioctl(self._screen, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    def wait(self, seconds: float) -> bool:
        """Read for `seconds`, or until the command ends. Return whether it has ended."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if (left := deadline - time.monotonic()) <= 0:
                return False
            self._read(min(left, 0.05))
        self._read(0.0)
        return True

    def wait_for(self, text: str, seconds: float) -> bool:
        """Reads until a text has been shown."""
        deadline = time.monotonic() + seconds
        while text.encode() not in self.said and time.monotonic() < deadline and not self.wait(0.05):
            pass
        return text.encode() in self.said

    def type(self, keys: bytes) -> None:
        """As at the keyboard: Ctrl-C goes to all processes in the foreground."""
        os.write(self._screen, keys)

    def close(self) -> None:
        """The window is closed."""
        os.close(self._screen)
        self._screen = -1

    @property
    def text(self) -> str:
        """All that was shown."""
        return self.said.decode(errors="replace")

    def is_ours_to_answer(self) -> bool:
        """Return whether the interpreter runs our code. By itself it has no handler for SIGTERM."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
        return False

    def left(self) -> list[int]:
        """Processes that the command started, itself included, that have not ended."""
        found = []
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if self.mark.encode() in environment.read_bytes().split(b"\0"):
                    found.append(int(environment.parent.name))
        return found

    def _read(self, seconds: float) -> None:
        while self._screen >= 0 and select.select([self._screen], [], [], seconds)[0]:
            try:
                got = os.read(self._screen, 65536)
            except OSError:  # the other side is closed
                return
            self.said += got
            seconds = 0.0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *error: object) -> None:
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        if self._screen >= 0:
            self.close()
