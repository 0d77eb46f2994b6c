"""Calls of other programs (Slurm, perf, mpirun, nvidia-smi, git) whose output is read."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

LARGEST_OUTPUT = 64 << 20
"""Bytes of each stream that are read. `squeue` of 100,000 jobs prints about 10 MB."""
QUOTED = 300
"""Characters of a program's own message that an error repeats."""


class ProgramFailed(Exception):
    """A program could not be started, did not end in time or printed too much."""


@dataclass(frozen=True)
class Answer:
    """Exit status of a program (negative: number of the signal) and its output as text."""

    status: int
    output: str
    errors: str

    @property
    def words(self) -> str:
        """The program's own message in one line: its errors, or its output if it wrote none, shortened to 300 characters."""
        text = " ".join((self.errors.strip() or self.output.strip() or f"exit status {self.status}").split())
        return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"


def end_in_words(status: int) -> str:
    """Return the end of a process by its exit status as text: 'was ended by SIGKILL', 'ended with status 1'."""
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def own_messages(messages: str) -> str:
    """Return the messages of a program without the framed reports that mpirun adds to them. All of them if nothing is left."""
    return "".join(re.split(r"^-{20,}\s*$", messages, flags=re.MULTILINE)[::2]).strip() or messages.strip()


def c_locale(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment (default: this process's) in which programs print in the C locale."""
    base = os.environ if environment is None else environment
    return {name: value for name, value in base.items() if name != "LANGUAGE"} | {"LC_ALL": "C"}


def ask(
    command: Sequence[str],
    *,
    seconds: float,
    content: bytes = b"",
    environment: Mapping[str, str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    largest: int = LARGEST_OUTPUT,
    keeps_locale: bool = False,
) -> Answer:
    try:
        process = subprocess.Popen(
            [*command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment if keeps_locale else c_locale(environment),
            cwd=folder,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise ProgramFailed(f"{command[0]} is not installed, or not in PATH. Install it") from error
    except (OSError, ValueError) as error:
        raise ProgramFailed(
            f"{command[0]} cannot be started: {error}. Correct the command or its permissions"
        ) from error
    streams = [_Stream(process, stream, largest) for stream in (process.stdout, process.stderr) if stream is not None]
    writer = threading.Thread(target=_feed, args=[process, content], daemon=True)
    writer.start()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired as error:
        raise ProgramFailed(
            f"{command[0]} did not end within {seconds:g} s. Try it by hand: {' '.join(command)[:QUOTED]}"
        ) from error
    finally:
        _kill(process)
        writer.join(1.0)
        output, errors = [stream.end() for stream in streams]
    if any(stream.is_too_long for stream in streams):
        raise ProgramFailed(f"{command[0]} printed more than {largest} bytes. Ask it for less")
    return Answer(process.returncode, output, errors)


class _Stream:
    """Reader of one output of a process in a thread of its own. It ends the process above the limit."""

    def __init__(self, process: subprocess.Popen[bytes], stream: IO[bytes], largest: int) -> None:
        self._process = process
        self._stream = stream
        self._largest = largest
        self._content = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while (block := os.read(self._stream.fileno(), 1 << 16)) and not self.is_too_long:
            self._content += block
        if self.is_too_long:
            _kill(self._process)

    @property
    def is_too_long(self) -> bool:
        return len(self._content) > self._largest

    def end(self) -> str:
        self._thread.join(1.0)
        if not self._thread.is_alive():  # a process that left the session may keep the stream open
            self._stream.close()
        return self._content.decode(errors="backslashreplace")


def _feed(process: subprocess.Popen[bytes], content: bytes) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it did not read its input: its status and message tell
        process.stdin.write(content)
    with suppress(BrokenPipeError):
        process.stdin.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
