"""Recorder process of a worker: it samples host and accelerators each second, without the interpreter lock of the training."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from aiperf.programs import end_in_words
from aiperf.reader_processes import package_environment
from aiperf.system.describe import boot_id
from aiperf.system.host import HostSampler
from aiperf.system.load import LoadWatch, OwnProcesses, roots_of, seen_here
from aiperf.system.log import Log, Session
from aiperf.system.processes import process_space, signal_at_end_of_parent
from aiperf.system.sampler import Device, DeviceSample
from aiperf.system.samplers import OpenSamplers, accelerator_samplers, attach, visible

LOWEST = 19
LOOKS_A_WATCH = 5
"""Samples of the devices per sample of all processes of the host."""
PAUSE_SECONDS = 10.0
"""Minimum interval between two recorders. A recorder that fails at once must not fill the journal with messages."""
STOP, WAKE = signal.SIGTERM, signal.SIGUSR1


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a recorder process, passed as JSON on its command line."""

    out: str
    host: str
    worker: int
    epoch_unix: float | None = None
    """Wall clock at the start of the run, origin of `at`. None: the start of the recorder."""
    interval_seconds: float = 1.0
    accelerators: int | None = None
    """Number that the worker trains on, to detect missing ones. 0 without accelerators. None if it is not known."""
    driver: str | None = None
    """Identity of the run's driver (`load.identity`). Its processor time counts as the run's if it is visible."""
    parent: int | None = None


class Recorder:
    """Handle of a recorder process that samples a host. The worker's process calls `start()` and `stop()`."""

    def __init__(self, recording: Recording) -> None:
        self._recording = msgspec.structs.replace(recording, parent=os.getpid())
        self._process: subprocess.Popen[bytes] | None = None
        self._replaced = -math.inf
        """Time of the last replacement."""

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process, which writes errors to this process's stderr."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "aiperf.system.recorder", msgspec.json.encode(self._recording).decode()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=package_environment(),
            start_new_session=True,  # the worker handles Ctrl-C of a terminal
        )
        with suppress(ProcessLookupError):  # already ended: its owner detects it
            # Set before the imports, so that they do not delay the ranks that start at the same time.
            os.setpriority(os.PRIO_PROCESS, self._process.pid, LOWEST)

    def replaced(self) -> str | None:
        """Start the process again if it has died, at most once in PAUSE_SECONDS. Return its end as text, None without one."""
        assert self._process is not None, "replaced() requires start()"
        code, now = self._process.poll(), time.monotonic()
        if code is None or now - self._replaced < PAUSE_SECONDS:
            return None
        self._replaced = now
        self.start()
        return end_in_words(code)

    def stop(self, patience_seconds: float = 5.0) -> int | None:
        """Return its exit status: 0 if it recorded until now, negative if a signal ended it, None if it was never started."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            with suppress(
                ProcessLookupError, PermissionError
            ):  # its last line needs processor time on a loaded host too
                os.setpriority(os.PRIO_PROCESS, self._process.pid, 0)
            self._process.send_signal(STOP)
            try:
                self._process.wait(patience_seconds)
            except subprocess.TimeoutExpired:  # a driver call hangs, as on a lost accelerator
                self._process.kill()
                self._process.wait()
        return self._process.returncode


def record(log: Log, attached: OpenSamplers, session: Session, parent: int | None, watch: LoadWatch) -> None:
    """Write samples until SIGTERM or the parent's end. Both signals must be blocked: SIGUSR1 causes the next sample at once."""
    log.begin(session)
    wanted = {device.id for device in session.devices}
    began = time.monotonic()
    looks = 0
    while parent is None or os.getppid() == parent:
        samples: list[DeviceSample] = []
        for sampler in attached.samplers.values():
            samples += sampler.sample(wanted)
        if watch.is_due():
            samples = watch.beside(samples, attached.samplers.values())
        now = time.monotonic() - began
        log.append(session.at + now, session.wall_unix + now, samples)
        # Wait for the next multiple of the interval, so that a slow sample does not shift the following ones.
        looks = max(looks + 1, int(now / session.interval_seconds) + 1)
        wait_seconds = max(0.0, looks * session.interval_seconds - (time.monotonic() - began))
        received = signal.sigtimedwait({STOP, WAKE}, wait_seconds)
        if received is not None and received.si_signo == STOP:
            return


def devices_of(attached: OpenSamplers, environment: Mapping[str, str]) -> tuple[Device, ...]:
    """Return the host, and the accelerators that a process with this environment may use."""
    all_devices = [device for sampler in attached.samplers.values() for device in sampler.devices()]
    hosts = tuple(device for device in all_devices if device.kind == "host")
    return hosts + visible([device for device in all_devices if device.kind == "accelerator"], environment)


def main() -> int:
    recording = msgspec.json.decode(sys.argv[1], type=Recording)
    signal.pthread_sigmask(signal.SIG_BLOCK, {STOP, WAKE})
    if recording.parent is not None:
        # WAKE, not a kill: the thread that started this process may end before its process. The loop then checks the parent
        signal_at_end_of_parent(WAKE)
    attached = attach({"host": HostSampler} | accelerator_samplers())
    log = Log(Path(recording.out))
    wall = time.time()
    session = Session(
        host=recording.host,
        worker=recording.worker,
        at=0.0 if recording.epoch_unix is None else round(wall - recording.epoch_unix, 3),
        wall_unix=round(wall, 3),
        interval_seconds=recording.interval_seconds,
        devices=devices_of(attached, os.environ),
        accelerators=recording.accelerators,
        not_sampled=attached.absent,
        boot_id=boot_id(),
        process_space=process_space(),
    )
    driver = None if recording.driver is None else seen_here(recording.driver)
    roots, ray_session = roots_of(recording.parent or os.getpid(), driver)
    watch = LoadWatch(OwnProcesses({*roots, os.getpid()}, ray_session), LOOKS_A_WATCH * recording.interval_seconds)
    with closing(log), closing(attached):
        record(log, attached, session, recording.parent, watch)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
