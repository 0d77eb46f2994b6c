"""Lines folded to a terminal's width, between words, with what follows set in below what it belongs to; whole elsewhere."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable

from aiperf.cli.program import as_called

NARROWEST = 40
"""In a narrower terminal nothing is folded: it would be a column of words."""


def say(lines: Iterable[str], indent: int = 2) -> None:
    """Prints lines to the standard output; folded where that is a terminal. `indent`: as in `folded`."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in lines:
        called = as_called(line)
        for part in folded(called, width, indent) if width >= NARROWEST else [called]:
            print(part, flush=True)


def folded(line: str, width: int, indent: int = 2) -> list[str]:
    """One line as lines of at most so many signs, a word that is longer by itself excepted: a path is to be copied whole.
    What follows the first is set in by `indent` more than the line is."""
    own = len(line) - len(line.lstrip())
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * (own + indent),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    ) or [""]
