"""Start of additional Python processes: a pool of worker processes, and the environment variables of a new process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path

from aiperf.errors import SideProcessLost


@contextmanager
def side_processes(number: int) -> Iterator[ProcessPoolExecutor]:
    """Return a context manager that yields a pool (ProcessPoolExecutor) of `number` new Python processes."""
    # Spawned, not forked: the caller may have threads.
    others = set(active_children())
    with ProcessPoolExecutor(number, mp_context=get_context("spawn"), initializer=_end_at_once) as pool:
        try:
            yield pool
        except BaseException as error:
            for process in set(active_children()) - others:
                process.kill()  # otherwise the pool waits for all submitted work
            if isinstance(error, BrokenProcessPool):
                raise SideProcessLost(
                    "each process of a command must run to its end, but one was killed, probably because memory ran out: free "
                    "memory, and repeat the command"
                ) from error
            raise


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Return a context manager that blocks SIGINT (Ctrl-C) within its block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def package_environment() -> dict[str, str]:
    """Variables for a new Python process, with this process's packages first in PYTHONPATH: it would import others.

    Its words have the options of the site's file, which it does not read again.
    """
    root = str(Path(__file__).resolve().parents[1])
    return {
        **os.environ,
        "AIPERF_SITE": "",
        "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])),
    }


def _end_at_once() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # an ignored signal stays ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
