"""`python -m aiperf`: a run of the benchmark, or a verb. A first word that is a verb is taken before Hydra sees the rest.

What is imported here is next to nothing, so that Ctrl-C is answered from the beginning: all else is imported once that holds.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from aiperf import HOME, interrupts

TYPE_CHECKING = False  # as typing has it, which takes its time to import
if TYPE_CHECKING:
    from typing import NoReturn

HELP = ("-h", "--help")
VERSION = "--version"


def main(words: Sequence[str] | None = None) -> int:
    """Carries the command line out; gives the exit status. Errors that a user can fix are printed without a traceback."""
    from aiperf.cli.program import as_called
    from aiperf.errors import AiperfError
    from aiperf.plain import plain_lines
    from aiperf.terminal import set_up

    set_up(sys.stdout, sys.stderr)
    try:
        return _carried_out(list(sys.argv[1:] if words is None else words))
    except KeyboardInterrupt:
        return _interrupted()
    except AiperfError as error:
        if interrupts.received() is not None:
            return _interrupted()  # what was ended with the request, or by it, may fail in any way
        print(f"aiperf: {as_called(plain_lines(str(error)))}", file=sys.stderr)
        return 2
    except OSError as error:  # nobody expected it; a program's own error is no OSError, and flies on
        if isinstance(error, BrokenPipeError) and _reader_has_left():
            # `… | head`: nothing is wrong, and nothing more can be said.
            sys.stderr.close()
            return 0
        if interrupts.received() is not None:
            return _interrupted()
        from aiperf.files import refused

        print(f"aiperf: {plain_lines(refused(error))}", file=sys.stderr)
        return 2


def _reader_has_left() -> bool:
    """Whether it is the pipe of our output that broke, and not one to a process of ours."""
    import select

    looked = select.poll()
    looked.register(1, 0)  # hang-ups and errors are told unasked
    return bool(looked.poll(0))


def _interrupted() -> int:
    """No traceback: who asked for the end knows where it was."""
    number = interrupts.received() or signal.SIGINT
    print(f"aiperf: ended by {signal.Signals(number).name}", file=sys.stderr)
    return 128 + number


def _carried_out(words: list[str]) -> int:
    import importlib

    from aiperf.cli import composed
    from aiperf.cli.arguments import VERBS, carry_out
    from aiperf.cli.program import program
    from aiperf.cli.slips import refuse_slips

    if words and words[0] == "help":
        words = [*words[1:2], HELP[1]]
    if words and words[0] in VERBS:
        return carry_out(words)
    if any(word in HELP for word in words):
        return int(importlib.import_module("aiperf.cli.help").main())
    if VERSION in words:
        return int(importlib.import_module("aiperf.cli.version").main())
    if composed.is_asked(words):
        return composed.main(words)
    # a slip is answered at once, before what a run needs is loaded
    config = importlib.import_module("aiperf.config")
    refuse_slips(words, VERBS, config.option_names(), program())
    config.require_options(words)
    return int(importlib.import_module("aiperf.cli.run").main(words))


def script() -> NoReturn:
    """The console script that an installation brings."""
    interrupts.install()
    try:
        status = _status()
        _flush()
        interrupts.over()
    except KeyboardInterrupt:  # before `main` could answer it, or after
        status = _interrupted()
        _flush()
    if interrupts.received() is None:
        sys.exit(status)
    # what libraries have left to be done at the exit may wait for processes that the request has ended
    os._exit(status)


def _flush() -> None:
    with suppress(OSError, ValueError):  # ValueError: it is closed
        sys.stdout.flush()
        sys.stderr.flush()


def _status() -> int:
    interrupts.unwind()
    try:
        return interrupts.status_unwound(main())
    except SystemExit as left:
        if left.code != signal.SIGTERM:
            raise
        return 128 + signal.SIGTERM  # how Ray leaves while it is imported (Ray 2.60): see interrupts.set_again
    except Exception:
        if interrupts.received() is None:
            raise
        return _interrupted()  # as above: a library's own way to fail


if __name__ == "__main__":
    if sys.path[0] != HOME and not sys.flags.safe_path:
        del sys.path[0]  # the working folder, which `python -m` puts there: no module in it is a library's
    script()
