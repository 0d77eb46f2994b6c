"""The recorder: a process beside each worker's own that samples the host each second into telemetry/<worker>.jsonl.

A process and not a thread, so that it never holds the interpreter lock of the one that trains; it runs at the lowest
priority, loads neither torch nor ray, and ends with the worker, however that ends.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from aiperf.system.attach import Attached, accelerator_samplers, attach, visible
from aiperf.system.describe import boot_id
from aiperf.system.host import HostSampler
from aiperf.system.load_watch import LoadWatch
from aiperf.system.log import Log, Session
from aiperf.system.own_processes import OwnProcesses, roots_of, seen_here
from aiperf.system.processes import process_space
from aiperf.system.sampler import Device, DeviceSample

PR_SET_PDEATHSIG = 1  # linux/prctl.h
LOWEST = 19
"""Priority: the lowest there is, whatever niceness the run began with."""
LOOKS_A_WATCH = 5
"""Looks at all of the host's processes are so much rarer than those at its devices."""
STOP, WAKE = signal.SIGTERM, signal.SIGUSR1


class Recorder:
    """A running recorder process. Started by the worker's process; `with Recorder(...):` or `start()` and `stop()`."""

    def __init__(
        self,
        out: Path,
        *,
        host: str,
        worker: int,
        epoch_unix: float,
        interval_seconds: float = 1.0,
        accelerators: int | None = None,
        driver: str | None = None,
    ) -> None:
        """`epoch_unix`: the wall clock when the run began, from which `at` is counted.

        `accelerators`: how many the worker trains on, so that missing ones can be told; 0 on a machine without. `driver`: the
        identity of the run's driver (`own_processes.identity`), so that its time counts as the run's where it can be seen.
        """
        if not interval_seconds > 0:
            raise ValueError(f"a recorder's interval is more than 0 s; this is {interval_seconds!r}")
        self._arguments = ["--out", str(out), "--host", host, "--worker", str(worker), "--epoch", repr(epoch_unix)]
        self._arguments += ["--interval", repr(interval_seconds), "--parent", str(os.getpid())]
        self._arguments += [] if accelerators is None else ["--accelerators", str(accelerators)]
        self._arguments += [] if driver is None else ["--driver", driver]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Begin recording; returns at once. The recorder's complaints come on this process's error output."""
        assert self._process is None, "a recorder is started once"
        # The package may have been found by a path that only this process knows, as under Ray's working_dir.
        package_root = str(Path(__file__).resolve().parents[2])
        python_path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "aiperf.system.recorder", *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": python_path},
            start_new_session=True,  # Ctrl-C at a terminal is the worker's to handle
        )
        with suppress(ProcessLookupError):  # ended already, which its owner sees
            # From its first instruction on: its imports give way to those of the ranks, which start beside it.
            os.setpriority(os.PRIO_PROCESS, self._process.pid, LOWEST)

    def end_in_words(self) -> str | None:
        """How it ended, where it was not stopped by its owner; None while it records."""
        assert self._process is not None, "a recorder is looked at once it was started"
        code = self._process.poll()
        if code is None:
            return None
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def stop(self, patience_seconds: float = 5.0) -> int | None:
        """End it and wait. Its exit status: 0 = it recorded until now; None = it was never started. Again: the same."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.send_signal(STOP)
            try:
                self._process.wait(patience_seconds)
            except subprocess.TimeoutExpired:  # a driver call that hangs, as on a lost accelerator
                self._process.kill()
                self._process.wait()
        return self._process.returncode

    def __enter__(self) -> Recorder:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def record(log: Log, attached: Attached, session: Session, parent: int | None, watch: LoadWatch) -> None:
    """Sample until SIGTERM, or until `parent` is no longer this process's parent. STOP and WAKE must be blocked."""
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
        # The next multiple of the interval, so that a slow look does not shift all that follow.
        looks = max(looks + 1, int(now / session.interval_seconds) + 1)
        wait_seconds = max(0.0, looks * session.interval_seconds - (time.monotonic() - began))
        told = signal.sigtimedwait({STOP, WAKE}, wait_seconds)
        if told is not None and told.si_signo == STOP:
            return


def devices_of(attached: Attached, environment: Mapping[str, str]) -> tuple[Device, ...]:
    """The host, and those accelerators that a process with this environment may use."""
    all_devices = [device for sampler in attached.samplers.values() for device in sampler.devices()]
    hosts = tuple(device for device in all_devices if device.kind == "host")
    return hosts + visible([device for device in all_devices if device.kind == "accelerator"], environment)


def die_with_parent() -> None:
    """Have the kernel wake this process when its parent's thread ends.

    A wake and not a kill: Linux sends it when the *thread* that started us ends, though its process may live on; the
    loop then looks whether the parent is still there.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(WAKE), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m aiperf.system.recorder", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the file to append to")
    parser.add_argument("--host", required=True)
    parser.add_argument("--worker", type=int, required=True)
    parser.add_argument(
        "--epoch", type=float, help="wall clock of the run's beginning, seconds since 1970; default: now"
    )
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between samples")
    parser.add_argument("--accelerators", type=int, help="how many the worker trains on")
    parser.add_argument("--parent", type=int, help="process to end with")
    parser.add_argument("--driver", help="identity of the run's driver")
    chosen = parser.parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, {STOP, WAKE})
    if chosen.parent is not None:
        die_with_parent()
    os.setpriority(os.PRIO_PROCESS, 0, LOWEST)  # whoever has started it
    attached = attach({"host": HostSampler} | accelerator_samplers())
    log = Log(chosen.out)
    wall = time.time()
    session = Session(
        host=chosen.host,
        worker=chosen.worker,
        at=0.0 if chosen.epoch is None else round(wall - chosen.epoch, 3),
        wall_unix=round(wall, 3),
        interval_seconds=chosen.interval,
        devices=devices_of(attached, os.environ),
        accelerators=chosen.accelerators,
        not_sampled=attached.absent,
        boot_id=boot_id(),
        process_space=process_space(),
    )
    roots, ray_session = roots_of(chosen.parent or os.getpid(), chosen.driver and seen_here(chosen.driver))
    watch = LoadWatch(OwnProcesses({*roots, os.getpid()}, ray_session), LOOKS_A_WATCH * chosen.interval)
    try:
        record(log, attached, session, chosen.parent, watch)
    finally:
        log.close()
        attached.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
