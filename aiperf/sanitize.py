"""Sanitized text: removal of control characters before a text from a journal reaches a terminal, a page or a spreadsheet."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, TextIO

from aiperf.files import escaped

_HIDDEN = re.compile(
    # C0 and C1, bidirectional controls, line separators, invisible characters, surrogates, tags.
    "[\x00-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
MARK = "\ufffd"
"""Replacement of a removed character."""


def sanitize(text: str) -> str:
    r"""Return a text with each control character and invisible character replaced by MARK ('�'). Line ends are replaced too.

    The replaced characters move a terminal's cursor, or colour, hide or reverse text.

    >>> sanitize("node1\\x1b[2J")
    'node1�[2J'
    """
    return _HIDDEN.sub(MARK, escaped(text))


def identity(name: str) -> str:
    """Return the form in which names are compared: NFKC, case-folded, without invisible characters and outer spaces."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join("".join(each for each in " ".join(folded.split()) if unicodedata.category(each)[0] != "C").split())


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""First characters of a formula in a spreadsheet, including fullwidth forms."""


def cell(text: str) -> str:
    """Return a text for a cell of a CSV file: control characters replaced, and an apostrophe before a formula.

    A formula begins with =, +, - or @ (OWASP, "CSV Injection"). A spreadsheet would execute it.

    >>> cell("=1+1")
    "'=1+1"
    """
    clean = sanitize(text)
    return f"'{clean}" if clean.lstrip().startswith(_FORMULA) else clean


def sanitize_lines(text: str) -> str:
    return "\n".join(sanitize(line) for line in text.split("\n"))


_WRITE = "unsanitized_write"


def sanitize_stream(stream: TextIO) -> None:
    if hasattr(stream, _WRITE):
        return
    write = stream.write

    def sanitized(text: str) -> int:
        return write("\t".join(map(sanitize_lines, escaped(text).split("\t"))))

    setattr(stream, _WRITE, write)
    stream.write = sanitized  # type: ignore[method-assign]


class Unsanitized:
    """Stream that writes texts unchanged, for a writer that sanitizes its texts and adds control codes of its own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, _WRITE if name == "write" and hasattr(self._stream, _WRITE) else name)
