"""Processes beside this one that read for it. At Ctrl-C they end at once, and without a word: that is for this one to say."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context


@contextmanager
def side_processes(number: int) -> Iterator[ProcessPoolExecutor]:
    """So many, as a pool. Where the block ends with an exception they are killed, whatever they still had to do."""
    # Spawned, not forked: whoever calls this may have threads.
    others = set(active_children())
    with ProcessPoolExecutor(number, mp_context=get_context("spawn"), initializer=_end_at_once) as pool:
        try:
            yield pool
        except BaseException:
            for process in set(active_children()) - others:
                process.kill()  # else the pool's own end waits until all that it was given is done
            raise


@contextmanager
def interrupts_held() -> Iterator[None]:
    """While processes are started, which a pool does as it is given work. Ctrl-C at a terminal goes to them too, and Python
    answers it with a traceback where they have hardly begun: they are born with it held, until they can answer it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_at_once() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # what is ignored is ignored still
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
