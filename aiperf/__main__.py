"""`python -m aiperf`: run the benchmark or a verb. Imports follow the signal handlers, so that Ctrl-C always works."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import chdir, suppress

if sys.platform != "linux":  # before imports that need it
    sys.exit(f"aiperf: Linux is needed, but this is {sys.platform}. Use a Linux machine, a container or WSL 2")

from aiperf import HOME, interrupts

TYPE_CHECKING = False  # without importing typing, which is slow
if TYPE_CHECKING:
    from typing import NoReturn

HELP = ("-h", "--help")
VERSION = "--version"
OURS = ("aiperf", "cluster", "morphism", "searchers")
"""Packages of this program. An import error in them is a programming error."""


def main(words: Sequence[str] | None = None) -> int:
    """Execute a command line and return its exit status: that of the verb or the run, 2 after an error that a user can fix."""
    from aiperf.cli.output import in_users_form, set_up
    from aiperf.errors import AiperfError
    from aiperf.sanitize import sanitize_lines

    set_up(sys.stdout, sys.stderr)
    try:
        return _execute(list(sys.argv[1:] if words is None else words))
    except KeyboardInterrupt:
        return _interrupted()
    except ImportError as error:
        if (error.name or "").partition(".")[0] in OURS:
            raise
        print(f"aiperf: {_dependency(error)}", file=sys.stderr)
        return 2
    except AiperfError as error:
        if interrupts.received() is not None:
            return _interrupted()  # the request can cause any error
        print(f"aiperf: {in_users_form(sanitize_lines(str(error)))}", file=sys.stderr)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _reader_has_ended():
            # `… | head` is no error, and no message can be printed.
            sys.stderr.close()
            return 0
        if interrupts.received() is not None:
            return _interrupted()
        from aiperf.files import refused

        print(f"aiperf: {sanitize_lines(refused(error))}", file=sys.stderr)
        return 2


def _dependency(error: ImportError) -> str:
    fault = "is missing" if isinstance(error, ModuleNotFoundError) else f"cannot be loaded ({error})"
    return (
        f"the Python package {error.name or 'of a dependency'!r} {fault}. Python is {sys.executable}: activate AIPerf's "
        "environment (source .venv/bin/activate), or install its dependencies again (`make setup` in a checkout, "
        "else `python -m pip install --force-reinstall` with the wheel)"
    )


def _reader_has_ended() -> bool:
    """Return True if the pipe of the standard output broke, not a pipe to a child process."""
    import select

    poll = select.poll()
    poll.register(1, 0)  # hang-ups and errors are always reported
    return bool(poll.poll(0))


def _interrupted() -> int:
    number = interrupts.received() or signal.SIGINT
    print(f"aiperf: ended by {signal.Signals(number).name}", file=sys.stderr)
    return 128 + number


def _execute(words: list[str]) -> int:
    from aiperf.cli import help as program_help
    from aiperf.cli.arguments import VERBS, execute, require_run_words
    from aiperf.mistyped import require_visible

    require_visible(words[: words.index("--")] if "--" in words else words)
    if words and words[0] in VERBS:
        return execute(words)
    if words and words[0] == "help":
        return execute([words[1], HELP[1]]) if words[1:] and words[1] in VERBS else program_help.main(words[1:])
    if any(word in HELP for word in words):
        return program_help.main()
    if VERSION in words:
        return program_help.version()
    if any(word.partition("=")[0] == "--cfg" for word in words):
        return program_help.composed(words)
    # wrong words are refused before the libraries of a run are loaded
    from aiperf.config import option_names, require_options

    require_run_words(words, option_names())
    require_options(words)
    from aiperf.cli import run

    return run.main(words)


def script() -> NoReturn:
    """Execute the arguments of this process and end the process with the exit status of `main`."""
    _open_closed_streams()
    interrupts.install()
    _ignore_settings_of_matplotlib()
    try:
        status = _status()
        _flush()
        interrupts.over()
    except KeyboardInterrupt:  # before or after `main`
        status = _interrupted()
        _flush()
    if interrupts.received() is None:
        sys.exit(status)
    # exit handlers of libraries may wait for processes that the request has ended
    os._exit(status)


def _ignore_settings_of_matplotlib() -> None:
    """Give Matplotlib settings of this program before its import: those of the user can fail, or need a display."""
    import logging

    os.environ |= {"MPLBACKEND": "agg", "MATPLOTLIBRC": os.devnull}
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it warns of a home folder that cannot be written
    if os.path.lexists("matplotlibrc"):  # it would read this file of the working folder first
        with suppress(ImportError), chdir("/"):
            import matplotlib  # noqa: F401


def _open_closed_streams() -> None:
    """Connect closed standard streams to the null device, since the next opened file would take their numbers."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _flush() -> None:
    with suppress(OSError, ValueError):  # ValueError: it is closed
        sys.stdout.flush()
        sys.stderr.flush()


def _status() -> int:
    interrupts.unwind()
    try:
        return interrupts.status(main(), interrupts.UNWINDING)
    except SystemExit as exiting:
        if exiting.code != signal.SIGTERM:
            raise
        return 128 + signal.SIGTERM  # raised by Ray during its import (Ray 2.60): see interrupts.set_again
    except Exception:
        if interrupts.received() is None:
            raise
        return _interrupted()  # a library may fail in any way


if __name__ == "__main__":
    if sys.path[0] != HOME and not sys.flags.safe_path:
        del sys.path[0]  # the working folder, added by `python -m`
    script()
