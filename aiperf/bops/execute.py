"""Execution of a counted or measured program: its wall time, its failure, and its end at Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiperf.errors import BadConfiguration, explained
from aiperf.files import open_regular
from aiperf.programs import own_messages

_LONGEST_SHOWN, _LONGEST_READ = 400, 1 << 16
_PATIENCE_SECONDS = 5.0


def execute(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    output: Path | None = None,
    source: Path | None = None,
) -> float:
    variables = {**os.environ, **(environment or {})}
    if os.geteuid() == 0:  # Open MPI refuses root without both
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with (
        Path(os.devnull).open("rb") if source is None else open_regular(source) as read,
        Path(os.devnull if output is None else output).open("wb") as written,
        tempfile.TemporaryFile() as messages,
    ):
        start = time.perf_counter()
        with explained(command[0], "cannot be started", "Name an executable file"):
            process = subprocess.Popen(command, stdin=read, stdout=written, stderr=messages, env=variables)
        try:
            status = process.wait()
        except BaseException:
            process.terminate()
            try:
                process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        seconds = time.perf_counter() - start
        if status:
            messages.seek(max(0, messages.seek(0, os.SEEK_END) - _LONGEST_READ))
            words = own_messages(messages.read().decode(errors="replace"))[-_LONGEST_SHOWN:]
            ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            raise Failed(
                f"a counted or measured program ends with status 0, but {' '.join(command)!r} {ended}: "
                f"{words or 'no message'}. Run it by hand first",
                status,
            )
    return seconds


class Failed(BadConfiguration):
    """A counted or measured program that ended with another exit status than 0."""

    def __init__(self, message: str, status: int) -> None:
        """Create the error. `message`: text for the user. `status`: exit status, or −N after signal N."""
        super().__init__(message)
        self.status = status
