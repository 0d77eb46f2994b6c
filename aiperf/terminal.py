"""Replacement of characters that the encoding of a terminal lacks by ASCII. Files are not affected."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

_PAIRS = r"""
    × x   − -   ÷ /   · |   – -   — -   … ...   ≤ <=   ≥ >=   ≈ ~   ≠ !=
    ± +-   µ u   ² ^2   ³ ^3   ⁶ ^6   ⁿ ^n   ᵀ ^T   √ sqrt   ∞ inf   α alpha   β beta
    γ gamma   ε epsilon   λ lambda   μ mu   π pi   σ sigma   Σ sum   τ tau   χ chi   ⌈ ceil(   ⌉ )
    ⁻ -   ½ 1/2   ＝ =   ＋ +   － -   → ->   ← <-   ↑ ^   ↓ v   ↳ ->   ’ '
    ‘ '   “ "   ” "   • *   ＠ @   ✓ ok   ✗ x   ⚠ !   █ #   ▏ |   ▎ |
    ▍ |   ▌ #   ▋ #   ▊ #   ▉ #   ━ -   ─ -   │ |   ╸ -   ╺ -   ╷ |
    ╵ |   ä ae   ö oe   ü ue   ß ss   é e   è e   á a
"""
PLAIN = {
    **dict(zip(_PAIRS.split()[::2], _PAIRS.split()[1::2], strict=True)),
    "°": "deg ",
    "\u0302": "^",
    "\ufffd": "?",
    "\xa0": " ",
    "\u202f": " ",
}
"""Replacement of each character. Others become '?'."""
ERRORS = "aiperf.sanitize"
"""Name of the error handler in `codecs`."""


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_shown(sign, error.encoding) for sign in missing), error.end


def _shown(sign: str, encoding: str) -> str:
    plain = PLAIN.get(sign, "?")
    try:
        plain.encode(encoding)
    except UnicodeEncodeError:
        return "?"
    return plain


def set_up(*streams: TextIO) -> None:
    """Make streams replace characters that their encoding lacks. UTF-8 streams are unchanged."""
    codecs.register_error(ERRORS, _plain)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            stream.reconfigure(errors=ERRORS)
