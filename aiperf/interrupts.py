"""Handlers of the signals that end the program: SIGINT (Ctrl-C), SIGTERM, and SIGHUP of a closed terminal."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

AT_ONCE, UNWINDING, NOTED = "at once", "unwinding", "noted"
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_SECONDS = 0.1
"""Signals within this time are one request: shells and wrappers forward a signal that the terminal sent too."""
LATE_SECONDS = 0.01
_SHOW_CURSOR = b"\x1b[?25h"


class _Requests:
    def __init__(self) -> None:
        self.stage = AT_ONCE
        self.first: int | None = None
        self.at = 0.0
        self.is_installed = False
        self.terminals: tuple[int, ...] = ()
        """Standard streams that were terminals at the start. A closed terminal cannot be recognized later."""
        self.then: Callable[[], None] | None = None
        self.last_words = ""
        self.processes: Callable[[], Iterable[int]] = tuple

    def take(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if number == signal.SIGHUP:
            self._turn_away()
        if self.first is not None:
            # the kernel and the shell both send SIGHUP
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
        """Raise KeyboardInterrupt for a signal that arrived where it could not be raised."""
        if self.stage == UNWINDING:
            raise KeyboardInterrupt

    def _turn_away(self) -> None:
        """Redirect the streams of a closed terminal to the null device, since writing to the terminal fails."""
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in self.terminals:
            os.dup2(null, stream)
        os.close(null)

    def leave(self, number: int) -> None:
        """End the processes of the run and exit immediately, with the terminal's cursor restored."""
        for pid in [pid for pid in self.processes() if pid != os.getpid()]:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with suppress(OSError):
            if 1 in self.terminals and self.stage != AT_ONCE:
                os.write(1, _SHOW_CURSOR)
            os.write(2, f"aiperf: ended at once{self.last_words}\n".encode(errors="surrogateescape"))
        os._exit(128 + number)


_requests = _Requests()


def install() -> None:
    """Install the handlers of SIGINT, SIGTERM and SIGHUP, at the stage AT_ONCE: a signal ends the process immediately."""
    _requests.is_installed = True
    _requests.terminals = tuple(stream for stream in (1, 2) if os.isatty(stream))
    set_again()


def set_again() -> None:
    """Install the handlers again after a library has replaced them (Ray 2.60 replaces that of SIGTERM)."""
    if _requests.is_installed:
        for number in NUMBERS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _requests.take)


def kill_when_ended(processes: Callable[[], Iterable[int]]) -> None:
    _requests.processes = processes


def say_when_ended(text: str) -> None:
    """Set the words that follow `ended at once` if a second signal ends the process: the command that resumes the run."""
    _requests.last_words = text


def unwind() -> None:
    """Begin the stage UNWINDING: from now on, the first signal raises KeyboardInterrupt in the main thread."""
    _requests.stage = UNWINDING
    signal.signal(signal.SIGALRM, _requests.raise_late)
    sys.unraisablehook = _unraisable


def _unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Raise a KeyboardInterrupt later if it arrived during the finalization of an object, as at the end of an import."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, LATE_SECONDS)
    else:
        sys.__unraisablehook__(unraisable)


def over() -> None:
    """Return to the stage AT_ONCE: from now on, a signal ends the process immediately."""
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    _requests.stage = AT_ONCE


def check() -> None:
    """Raise KeyboardInterrupt if a signal was received and the stage is UNWINDING. Otherwise do nothing."""
    if _requests.first is not None and _requests.stage == UNWINDING:
        raise KeyboardInterrupt


def note() -> None:
    """Begin the stage NOTED: from now on, a signal raises nothing, and `received` returns its number."""
    check()
    if _requests.is_installed:
        _requests.stage = NOTED


@contextmanager
def noted(then: Callable[[], None]) -> Iterator[None]:
    """Return a context manager that calls `then()` at the first signal within its block."""
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


def status(otherwise: int, stage: str = NOTED) -> int:
    """Return the exit status of the process: 130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP."""
    return 128 + _requests.first if _requests.first is not None and _requests.stage == stage else otherwise


def received() -> int | None:
    """Return the number of the first signal that this process received since `install`, such as 2. None without a signal."""
    return _requests.first
