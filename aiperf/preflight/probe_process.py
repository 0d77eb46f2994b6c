"""The process that carries probes out: `python -m aiperf.preflight.probe_process FD`, started by `prober.Prober`.

It lives no longer than its owner. The pipe carries pickles between this release's own code in processes of one user.
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

from aiperf.preflight.reading import Probe, Reading, Setting, failed

_PR_SET_PDEATHSIG = 1


def main() -> None:
    pipe = Connection(int(sys.argv[1]))
    if platform.system() == "Linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held since its start: see `interrupts_held`
    while True:
        try:
            probe, setting = pipe.recv()
        except EOFError:
            # not sys.exit: a thread of Gloo's or NCCL's that waits for the others would keep the process
            os._exit(0)
        pipe.send(_measured(probe, setting))


def _measured(probe: Probe, setting: Setting) -> Reading:
    began = time.monotonic()
    try:
        reading = probe.measure(setting)
        msgspec.json.encode(reading)  # it will stand in a journal
    except Exception as error:  # noqa: BLE001  # it is told as what it is: a reading that there is none
        words = " ".join(str(error).split()) or type(error).__name__
        return failed(probe, words if isinstance(error, OSError) else f"{type(error).__name__}: {words}", _since(began))
    return msgspec.structs.replace(reading, seconds=_since(began))


def _since(began: float) -> float:
    return round(time.monotonic() - began, 4)


if __name__ == "__main__":
    main()
