"""Process that runs probes: `python -m aiperf.measure.probe_process FD`, started by `prober.Prober`.

It ends with its owner. The pipe carries pickles between processes of one user with the same release.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
import time
from multiprocessing.connection import Connection

import msgspec

from aiperf.measure.probe import Probe, ProbeReading, Setting, failed

_PR_SET_PDEATHSIG = 1


def main() -> None:
    pipe = Connection(int(sys.argv[1]))
    if platform.system() == "Linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
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
