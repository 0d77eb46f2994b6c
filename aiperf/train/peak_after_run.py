"""Matrix product of a worker's CPUs, measured again after the run, to detect a change of speed.

The ranks have ended by then. The same number of processes and threads as at the worker's start (`rank.py`) multiply
together. The caller imports no torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

READY = b"ready\n"
_ROOT = Path(__file__).parents[2]


def measured_again(ranks: int, threads: int, precision: str, seconds: float) -> float | None:
    """Return the FLOPS of the first of `ranks` processes that measure at the same time.

    None if they take longer than `seconds`.
    """
    end = time.monotonic() + seconds
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    command = [sys.executable, "-P", "-m", "aiperf.train.peak_after_run", precision, str(threads)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) for _ in range(ranks)
    ]
    try:
        if any(_line(process, end) != READY for process in processes):  # all have imported torch, and begin together
            return None
        while True:
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(b"\n")
                process.stdin.flush()
            outputs = [_line(process, end).split() for process in processes]
            if not all(outputs):
                return None
            if not any(is_faster == b"True" for _, is_faster in outputs):
                return float(outputs[0][0])
    except BrokenPipeError:  # one has ended
        return None
    finally:
        for process in processes:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()


def _line(process: subprocess.Popen[bytes], end: float) -> bytes:
    """Return the next line of the process. Empty if it ends or takes too long."""
    assert process.stdout is not None
    with DefaultSelector() as selector:
        selector.register(process.stdout, EVENT_READ)
        if not selector.select(max(0.0, end - time.monotonic())):
            return b""
        return process.stdout.readline()


def main(words: Sequence[str]) -> None:
    """Run one measuring process. Arguments: PRECISION THREADS. Each line on standard input requests a pass."""
    from typing import cast

    from aiperf.train.matmul_peak import CpuDataType, matmul_passes

    precision, threads = words
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    passes = matmul_passes(cast(CpuDataType, precision), int(threads))
    while sys.stdin.readline():
        one = next(passes)
        print(one.flops, one.is_faster, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
