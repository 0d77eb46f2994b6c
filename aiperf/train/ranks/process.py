"""Handle of the process of one rank, as used by its supervisor: start, messages, polling, kill. No torch here."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

from aiperf.own_files import append_own
from aiperf.system import processes
from aiperf.train.collectives.rendezvous_place import StoreAt
from aiperf.train.heartbeat import HeartbeatFile
from aiperf.train.ranks.hang_watch import ProcessProgress
from aiperf.train.ranks.protocol import ExecuteOrder, FailureReport, RankStatus, Setup

LAST_LINES = 3
LONGEST_LINE = 300
"""Maximum characters of a log line that are quoted in a reason."""
ALLOCATOR = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"}
"""Variables with settings of torch's allocator. Without one, batches of many sizes fragment the memory of an accelerator."""
_ROOT = Path(__file__).resolve().parents[3]
"""Folder of the packages. The rank must import the same ones."""


class RankProcess:
    """Child process of one rank, connected by a pipe. Its output is written to its own log file."""

    def __init__(self, setup: Setup, environment: dict[str, str], log: Path) -> None:
        """`environment`: added to the variables of this process. Raise OSError if the process cannot be started."""
        self.rank = setup.rank
        self.pipe, theirs = Pipe()
        self._failed: FailureReport | None = None
        self._log = log
        self._stopped_since: float | None = None
        threads = str(setup.threads)
        with append_own(log) as output, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "aiperf.train.ranks.rank", str(theirs.fileno())],
                pass_fds=[theirs.fileno(), *_listening(setup)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={
                    # results depend on it, and Triton 3.10 changes its default. A value of the user is kept
                    "TRITON_DEFAULT_FP_FUSION": "1",
                    **({} if ALLOCATOR & os.environ.keys() else {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
                    **_nccl_log(log),
                    **os.environ,
                    "OMP_NUM_THREADS": threads,
                    "MKL_NUM_THREADS": threads,
                    "TORCHINDUCTOR_COMPILE_THREADS": threads,
                    # for every collective, unless its ranks are on several hosts
                    "GLOO_SOCKET_IFNAME": "lo",
                    "NCCL_SOCKET_IFNAME": "lo",
                    "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
                    **environment,
                },
            )
        self._progress = ProcessProgress(self.pid, time.monotonic())
        self.send(setup)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Setup | ExecuteOrder) -> None:
        """Nothing happens if the process has ended."""
        if self.pipe.closed:
            return  # `receive` has found its end
        with contextlib.suppress(BrokenPipeError):  # it has ended, which is detected elsewhere
            self.pipe.send(message)

    def receive(self) -> Any:
        """None at the end of the pipe, which is then closed."""
        try:
            message = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.pipe.close()
            return None
        if isinstance(message, FailureReport):
            self._failed = message
        return message

    def look(self, heartbeats: HeartbeatFile, now: float) -> RankStatus:
        stage, since = heartbeats.stages()[self.rank]
        self._progress.look(stage, since, now)
        code = self._process.poll()
        return RankStatus(
            rank=self.rank,
            pid=self.pid,
            sign=heartbeats.sign(self.rank, now),
            has_ended=code is not None,
            signal=None if code is None or code >= 0 else signal.Signals(-code),
            end_in_words="" if code is None else self._end_in_words(code),
            failed=self._failed,
            stopped_seconds=self._stopped_seconds(now),
            quiet_seconds=self._progress.quiet_for(now),
        )

    def _end_in_words(self, code: int) -> str:
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        how = f"ended with status {code}"
        with contextlib.suppress(OSError):
            lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
            if lines:
                how += f": {' | '.join(line[:LONGEST_LINE] for line in lines[-LAST_LINES:])}"
        return f"{how} (log: {self._log})"

    def _stopped_seconds(self, now: float) -> float:
        if not processes.is_stopped(self.pid):
            self._stopped_since = None
            return 0.0
        if self._stopped_since is None:
            self._stopped_since = now
        return max(now - self._stopped_since, 1e-9)

    def state(self) -> str:
        """Letter of proc(5), such as 'R' or 'D'. Empty if the process does not exist."""
        return processes.state(self.pid)

    def hang_up(self) -> None:
        """Close the pipe. The rank then finishes the checkpoint that it is writing, and ends."""
        self.pipe.close()

    def kill(self) -> None:
        self.pipe.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def has_gone(self, seconds: float) -> bool:
        """Wait up to `seconds` for the end. After them a thread waits: a process in state D may never end."""
        try:
            self._process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            threading.Thread(target=self._process.wait, name="unkillable-rank", daemon=True).start()
            return False
        return True


def _nccl_log(log: Path) -> dict[str, str]:
    """Return variables with which NCCL writes its connections into a file. Empty if the user set one of them."""
    variables = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,GRAPH",
        "NCCL_DEBUG_FILE": str(log.with_suffix(".nccl")),
    }
    return {} if variables.keys() & os.environ.keys() else variables


def _listening(setup: Setup) -> list[int]:
    place = setup.meeting
    return [place.listening] if isinstance(place, StoreAt) and place.listening is not None else []
