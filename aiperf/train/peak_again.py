"""The matrix product of a worker's processors once more, after the run: whether they still do what they did when it began.

Its ranks have ended by then; as many processes with as many threads multiply together, as the ranks did when the worker came up
(`rank.py`). No torch is imported by whoever asks.
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
    """FLOPS of the first of so many processes that measure at the same time. None: they have not done so within `seconds`."""
    end = time.monotonic() + seconds
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    command = [sys.executable, "-P", "-m", "aiperf.train.peak_again", precision, str(threads)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) for _ in range(ranks)
    ]
    try:
        if any(_line(process, end) != READY for process in processes):  # all have torch by then, and begin together
            return None
        while True:
            for process in processes:
                assert process.stdin is not None
                process.stdin.write(b"\n")
                process.stdin.flush()
            said = [_line(process, end).split() for process in processes]
            if not all(said):
                return None
            if not any(is_faster == b"True" for _, is_faster in said):
                return float(said[0][0])
    except BrokenPipeError:  # one has ended
        return None
    finally:
        for process in processes:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()


def _line(process: subprocess.Popen[bytes], end: float) -> bytes:
    """The next line that it writes; empty where it ends or takes too long."""
    assert process.stdout is not None
    with DefaultSelector() as selector:
        selector.register(process.stdout, EVENT_READ)
        if not selector.select(max(0.0, end - time.monotonic())):
            return b""
        return process.stdout.readline()


def main(words: Sequence[str]) -> None:
    """In a process of its own: PRECISION THREADS. A line on its standard input asks for each pass."""
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
