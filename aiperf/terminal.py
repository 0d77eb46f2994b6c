"""What the process prints goes out as the terminal can show it: signs that its encoding lacks become plain ones.

Set up once, where the command line is taken; whoever prints, prints the right sign. Files are not touched.
"""

from __future__ import annotations

import codecs
import io
from typing import TextIO

PLAIN = {
    "×": "x",
    "−": "-",
    "÷": "/",
    "·": "|",
    "–": "-",
    "—": "-",
    "…": "...",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "≠": "!=",
    "±": "+-",
    "°": "deg ",
    "µ": "u",
    "²": "^2",
    "³": "^3",
    "⁶": "^6",
    "ⁿ": "^n",
    "ᵀ": "^T",
    "√": "sqrt",
    "∞": "inf",
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "ε": "epsilon",
    "λ": "lambda",
    "μ": "mu",
    "σ": "sigma",
    "Σ": "sum",
    "τ": "tau",
    "χ": "chi",
    "⌈": "ceil(",
    "⌉": ")",
    "⁻": "-",
    "½": "1/2",
    "\u0302": "^",
    "＝": "=",
    "＋": "+",
    "－": "-",
    "→": "->",
    "←": "<-",
    "↑": "^",
    "↓": "v",
    "↳": "->",
    "’": "'",
    "‘": "'",
    "“": '"',
    "”": '"',
    "•": "*",
    "＠": "@",
    "✓": "ok",
    "✗": "x",
    "⚠": "!",
    "█": "#",
    "▏": "|",
    "▎": "|",
    "▍": "|",
    "▌": "#",
    "▋": "#",
    "▊": "#",
    "▉": "#",
    "━": "-",
    "─": "-",
    "│": "|",
    "╸": "-",
    "╺": "-",
    "╷": "|",
    "╵": "|",
    "\ufffd": "?",
    "\xa0": " ",
    "\u202f": " ",
    "ä": "ae",
    "ö": "oe",
    "ü": "ue",
    "ß": "ss",
    "é": "e",
    "è": "e",
    "á": "a",
}
"""What stands for a sign where it cannot be shown; another becomes '?'."""
ERRORS = "aiperf.plain"
"""Under which name Python's codecs know it."""


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    asked = error.object[error.start : error.end]
    return "".join(_shown(sign, error.encoding) for sign in asked), error.end


def _shown(sign: str, encoding: str) -> str:
    said = PLAIN.get(sign, "?")
    try:
        said.encode(encoding)
    except UnicodeEncodeError:
        return "?"
    return said


def set_up(*streams: TextIO) -> None:
    """From here on, none of these streams fails for a sign that its encoding lacks; one that has them all stays as it is."""
    codecs.register_error(ERRORS, _plain)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(errors=ERRORS)
