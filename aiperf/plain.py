"""Text that stands in a journal, as a terminal, a page or a spreadsheet may show it: without what commands any of them.

A host's name, a reason or a model's name was said by another machine, or written by whoever wrote the journal.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    # C0 and C1; marks, overrides and isolates of direction, separators of lines; what is invisible; halves of characters.
    "[\x00-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
MARK = "\ufffd"
"""Stands where something was taken out: nobody is to take the rest for the whole."""


def plain(text: str) -> str:
    """One line of a terminal: no character in it moves the cursor, colours, hides, ends the line or turns its direction.

    >>> plain("node1\\x1b[2J")
    'node1�[2J'
    """
    return _HIDDEN.sub(MARK, text)


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""A spreadsheet takes a text that begins with one of these for a formula; fullwidth forms count too."""


def cell(text: str) -> str:
    """The same in a table that a spreadsheet may open: before what would be a formula stands an apostrophe (OWASP, "CSV
    Injection").

    >>> cell("=1+1")
    "'=1+1"
    """
    told = plain(text)
    return f"'{told}" if told.lstrip().startswith(_FORMULA) else told


def plain_lines(text: str) -> str:
    """The same of a text of several lines, which stay."""
    return "\n".join(plain(line) for line in text.split("\n"))
