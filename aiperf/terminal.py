"""Replacement of characters that the encoding of a terminal lacks by ASCII. Files are not affected."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

_PAIRS = [
    r"×",
    r"x",
    r"−",
    r"-",
    r"÷",
    r"/",
    r"·",
    r"|",
    r"–",
    r"-",
    r"—",
    r"-",
    r"…",
    r"...",
    r"≤",
    r"<=",
    r"≥",
    r">=",
    r"≈",
    r"~",
    r"≠",
    r"!=",
    r"±",
    r"+-",
    r"µ",
    r"u",
    r"²",
    r"^2",
    r"³",
    r"^3",
    r"⁶",
    r"^6",
    r"ⁿ",
    r"^n",
    r"ᵀ",
    r"^T",
    r"√",
    r"sqrt",
    r"∞",
    r"inf",
    r"α",
    r"alpha",
    r"β",
    r"beta",
    r"γ",
    r"gamma",
    r"ε",
    r"epsilon",
    r"λ",
    r"lambda",
    r"μ",
    r"mu",
    r"π",
    r"pi",
    r"σ",
    r"sigma",
    r"Σ",
    r"sum",
    r"τ",
    r"tau",
    r"χ",
    r"chi",
    r"⌈",
    r"ceil(",
    r"⌉",
    r")",
    r"⁻",
    r"-",
    r"½",
    r"1/2",
    r"＝",
    r"=",
    r"＋",
    r"+",
    r"－",
    r"-",
    r"→",
    r"->",
    r"←",
    r"<-",
    r"↑",
    r"^",
    r"↓",
    r"v",
    r"↳",
    r"->",
    r"’",
    r"'",
    r"‘",
    r"'",
    r"“",
    r'"',
    r"”",
    r'"',
    r"•",
    r"*",
    r"＠",
    r"@",
    r"✓",
    r"ok",
    r"✗",
    r"x",
    r"⚠",
    r"!",
    r"█",
    r"#",
    r"▏",
    r"|",
    r"▎",
    r"|",
    r"▍",
    r"|",
    r"▌",
    r"#",
    r"▋",
    r"#",
    r"▊",
    r"#",
    r"▉",
    r"#",
    r"━",
    r"-",
    r"─",
    r"-",
    r"│",
    r"|",
    r"╸",
    r"-",
    r"╺",
    r"-",
    r"╷",
    r"|",
    r"╵",
    r"|",
    r"ä",
    r"ae",
    r"ö",
    r"oe",
    r"ü",
    r"ue",
    r"ß",
    r"ss",
    r"é",
    r"e",
    r"è",
    r"e",
    r"á",
    r"a",
]
PLAIN = {
    **dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True)),
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
