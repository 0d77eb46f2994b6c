"""Process that runs the probes of a node one after the other, each with a time limit, and its handle.

The pipe carries pickles between processes of one user with the same release. This module does not import torch.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection, Pipe

import msgspec

from aiperf.measure.probe import Probe, ProbeReading, Setting, failed
from aiperf.programs import end_in_words
from aiperf.reader_processes import interrupts_held, package_environment
from aiperf.system.processes import signal_at_end_of_parent

_KILL_SECONDS = 5.0


class Prober:
    """Handle of a child process that runs probes, until `close`. It is not thread-safe."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None

    @property
    def pid(self) -> int | None:
        """None before the first probe, after `close`, and after a timeout or crash."""
        return None if self._process is None else self._process.pid

    def measure(self, probe: Probe, seconds: float) -> ProbeReading:
        """Run a probe. A timeout, a crash or an error gives a reading with the reason. `seconds` includes its start."""
        began = time.monotonic()
        pipe = self._pipe or self._begin()
        try:
            pipe.send((probe, self._setting))
            if not pipe.poll(seconds):
                self.close()
                return failed(
                    probe,
                    f"no answer in {seconds:g} s, and it was killed: raise preflight.seconds, or check dmesg on the node",
                    time.monotonic() - began,
                )
            reading: ProbeReading = pipe.recv()
        except (EOFError, ConnectionError):
            return failed(probe, f"its process {self._end_in_words()}", time.monotonic() - began)
        return reading

    def _begin(self) -> Connection:
        self._pipe, theirs = Pipe()
        with theirs, interrupts_held():
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "aiperf.measure.prober", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=package_environment(),
            )
        return self._pipe

    def _end_in_words(self) -> str:
        process = self._process
        assert process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_SECONDS)
        code = process.poll()
        self.close()
        return "closed its pipe" if code is None else end_in_words(code)

    def close(self) -> None:
        process, self._process = self._process, None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if process is None:
            return
        process.kill()
        try:
            process.wait(_KILL_SECONDS)
        except subprocess.TimeoutExpired:
            # a process in uninterruptible sleep ends when its device or file server answers, possibly never
            threading.Thread(target=process.wait, name="unkillable-probe", daemon=True).start()


def main() -> None:
    """Answer the owner's probes with readings, until it closes the pipe. The first argument is the pipe's file descriptor."""
    pipe = Connection(int(sys.argv[1]))
    signal_at_end_of_parent(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked since its start: see `interrupts_held`
    while True:
        try:
            probe, setting = pipe.recv()
        except EOFError:
            # not sys.exit: a thread of Gloo or NCCL that waits for other ranks would keep the process alive
            os._exit(0)
        pipe.send(_measured(probe, setting))


def _measured(probe: Probe, setting: Setting) -> ProbeReading:
    began = time.monotonic()
    try:
        reading = probe.measure(setting)
        msgspec.json.encode(reading)  # must be storable in a journal
    except Exception as error:  # noqa: BLE001  # any error is reported as a failed reading
        text = " ".join(str(error).split()) or type(error).__name__
        return failed(probe, text if isinstance(error, OSError) else f"{type(error).__name__}: {text}", _since(began))
    return msgspec.structs.replace(reading, seconds=_since(began))


def _since(began: float) -> float:
    return round(time.monotonic() - began, 4)


if __name__ == "__main__":
    main()
