"""What a request for the end does: Ctrl-C (SIGINT), SIGTERM, and SIGHUP of a terminal that was closed.

From its first import on, the program is at one of three stages. `AT_ONCE`: nothing has begun, and it ends where it stands.
`UNWINDING`: KeyboardInterrupt is raised, so that whoever has started something ends it. `NOTED`: a run is being driven, and
is ended cleanly at the driver's next turn. Asked for again, it ends at once, whatever the stage; what it had started goes with
its owner then (`scratch.py`). It is imported before all else, and imports next to nothing: see `aiperf/__main__.py`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

AT_ONCE, UNWINDING, NOTED = "at once", "unwinding", "noted"
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_SECONDS = 0.1
"""A second signal so soon after the first is the same request: shells and wrappers pass one on that the terminal sent too."""
LATE_SECONDS = 0.01
_SHOW_CURSOR = b"\x1b[?25h"


class _Requests:
    """Of this process: signals are one to a process, and so is this."""

    def __init__(self) -> None:
        self.stage = AT_ONCE
        self.first: int | None = None
        self.at = 0.0
        self.is_installed = False
        self.terminals: tuple[int, ...] = ()
        """Standard streams that were terminals at the beginning: a closed one does not say so any more."""
        self.then: Callable[[], None] | None = None

    def take(self, number: int, frame: object) -> None:
        """A signal has come."""
        now = time.monotonic()
        if number == signal.SIGHUP:
            self._turn_away()
        if self.first is not None:
            # a terminal that is closed says so twice: the kernel and the shell
            if number != signal.SIGHUP and now - self.at >= AGAIN_SECONDS:
                self.leave(number)
            return
        self.first, self.at = number, now
        if self.stage == AT_ONCE:
            self.leave(number)
        if self.stage == UNWINDING:
            raise KeyboardInterrupt
        if self.then is not None:
            self.then()

    def raise_late(self, number: int, frame: object) -> None:
        """A signal that could not be answered where it came is answered now."""
        if self.stage == UNWINDING:
            raise KeyboardInterrupt

    def _turn_away(self) -> None:
        """Nobody reads what is written to a terminal that was closed, and writing to it fails."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in self.terminals:
            os.dup2(nowhere, stream)
        os.close(nowhere)

    def leave(self, number: int) -> None:
        """Ends the process at once, with the terminal's cursor as it was."""
        with suppress(OSError):
            if 1 in self.terminals and self.stage != AT_ONCE:
                os.write(1, _SHOW_CURSOR)
            os.write(2, b"aiperf: ended at once\n")
        os._exit(128 + number)


_requests = _Requests()


def install() -> None:
    """From here on. What the caller has this process ignore (nohup, a job in the background) is ignored still."""
    _requests.is_installed = True
    _requests.terminals = tuple(stream for stream in (1, 2) if os.isatty(stream))
    set_again()


def set_again() -> None:
    """After a library has set handlers of its own, as Ray does for SIGTERM (Ray 2.60)."""
    if _requests.is_installed:
        for number in NUMBERS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _requests.take)


def unwind() -> None:
    """From here on KeyboardInterrupt is raised."""
    _requests.stage = UNWINDING
    signal.signal(signal.SIGALRM, _requests.raise_late)
    sys.unraisablehook = _unraisable


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """One that comes while an object is finalised cannot be raised there, and would be printed (an import that ends has such
    a moment): it is raised a little later."""
    if isinstance(found.exc_value, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, LATE_SECONDS)
    else:
        sys.__unraisablehook__(found)


def over() -> None:
    """From here on there is nothing to unwind: the interpreter ends."""
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    _requests.stage = AT_ONCE


def check() -> None:
    """Raises KeyboardInterrupt where the end was asked for, and that came to nothing: a library had swallowed it."""
    if _requests.first is not None and _requests.stage == UNWINDING:
        raise KeyboardInterrupt


def note() -> None:
    """From here on a request is kept, for whoever drives a run. A request that has come already is answered first."""
    check()
    if _requests.is_installed:
        _requests.stage = NOTED


@contextmanager
def noted(then: Callable[[], None]) -> Iterator[None]:
    """A stretch in which `then` is called at the first request, at its beginning where that had come before."""
    global _requests
    outer, before = _requests, {number: signal.getsignal(number) for number in NUMBERS}
    inner = outer if outer.is_installed else _Requests()
    stage, inner.stage, inner.then = inner.stage, NOTED, then
    _requests = inner
    for number in NUMBERS:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, inner.take)
    if inner.first is not None:
        then()
    try:
        yield
    finally:
        inner.stage, inner.then, _requests = stage, None, outer
        for number, handler in before.items():
            signal.signal(number, handler)


def status(otherwise: int) -> int:
    """The exit status of a run that was driven: 130 after Ctrl-C, as of any command that it ends; 143 after SIGTERM, 129 after
    SIGHUP."""
    return _status_at(NOTED, otherwise)


def status_unwound(otherwise: int) -> int:
    """The same of what was not driven, where KeyboardInterrupt was raised, or a library had swallowed it."""
    return _status_at(UNWINDING, otherwise)


def _status_at(stage: str, otherwise: int) -> int:
    return 128 + _requests.first if _requests.first is not None and _requests.stage == stage else otherwise


def received() -> int | None:
    """The signal that asked for the end first; None: nobody has."""
    return _requests.first
