"""`python -m aiperf`: a run of the benchmark, or a verb. A first word that is a verb is taken before Hydra sees the rest."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

from aiperf.cli import composed
from aiperf.cli.arguments import VERBS, carry_out
from aiperf.cli.program import as_called, program
from aiperf.cli.slips import refuse_slips
from aiperf.errors import AiperfError
from aiperf.plain import plain_lines
from aiperf.terminal import set_up

HELP = ("-h", "--help")
VERSION = "--version"


def main(words: Sequence[str] | None = None) -> int:
    """Carries the command line out; gives the exit status. Errors that a user can fix are printed without a traceback."""
    set_up(sys.stdout, sys.stderr)
    try:
        return _carried_out(list(sys.argv[1:] if words is None else words))
    except AiperfError as error:
        print(f"aiperf: {as_called(plain_lines(str(error)))}", file=sys.stderr)
        return 2
    except OSError as error:  # nobody expected it; a program's own error is no OSError, and flies on
        if isinstance(error, BrokenPipeError) and _reader_has_left():
            # `… | head`: nothing is wrong, and nothing more can be said.
            sys.stderr.close()
            return 0
        from aiperf.files import refused

        print(f"aiperf: {plain_lines(refused(error))}", file=sys.stderr)
        return 2


def _reader_has_left() -> bool:
    """Whether it is the pipe of our output that broke, and not one to a process of ours."""
    import select

    looked = select.poll()
    looked.register(1, 0)  # hang-ups and errors are told unasked
    return bool(looked.poll(0))


def _carried_out(words: list[str]) -> int:
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
    sys.exit(main())


if __name__ == "__main__":
    script()
