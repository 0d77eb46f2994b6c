"""How the program was called, so that what it tells people to type is what they typed.

Texts are written with `python -m aiperf`, which works wherever the package does; `as_called` turns them where they are printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

MODULE = "python -m aiperf"
SCRIPT = "aiperf-cluster"
"""The console script of pyproject.toml."""


def program() -> str:
    """What was typed before the words."""
    return SCRIPT if Path(sys.argv[0]).name == SCRIPT else MODULE


def tell(line: str) -> None:
    """Prints a line to the standard output, with commands as they were called."""
    print(as_called(line), flush=True)


def as_called(text: str) -> str:
    """The text with commands as they were called."""
    return text if program() == MODULE else text.replace(MODULE, program())
