"""Start of further Python processes: a pool that reads for this process, and the environment of a new process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from pathlib import Path


@contextmanager
def side_processes(number: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of `number` new processes. They are killed if the block ends with an exception."""
    # Spawned, not forked: the caller may have threads.
    others = set(active_children())
    with ProcessPoolExecutor(number, mp_context=get_context("spawn"), initializer=_end_at_once) as pool:
        try:
            yield pool
        except BaseException:
            for process in set(active_children()) - others:
                process.kill()  # otherwise the pool waits for all submitted work
            raise


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Block SIGINT while work is submitted to a pool, which starts processes.

    Ctrl-C also reaches the new processes. During their start, Python would print a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def package_environment() -> dict[str, str]:
    """Return this process's environment, extended so that a new Python process imports the same packages.

    The packages may be on a path that only this process has, as with Ray's working_dir.
    """
    root = str(Path(__file__).resolve().parents[1])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}


def _end_at_once() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # an ignored signal stays ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
