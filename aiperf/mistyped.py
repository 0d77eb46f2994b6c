"""Faults of typed words, named as what they are, and the form that works."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Sequence

from aiperf.errors import BadConfiguration
from aiperf.files import LONGEST_SHOWN

_NAMES = {
    "\r": "a carriage return (CR), as in a file with Windows line ends",
    "\n": "a line end",
    "\t": "a tab",
    "\ufeff": "a byte order mark",
}
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_PLAIN = re.compile(r"[\w./:@%+~-]+", re.ASCII)


def short(value: object) -> str:
    """Return a value as in Python for messages, of a long one the beginning."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…{text[-1]}"


def character(one: str) -> str:
    """Return the name of a character for messages: 'a no-break space (U+00A0)'."""
    name = unicodedata.name(one, "control character").lower()
    return _NAMES.get(one, f"a{'n' if name[0] in 'aeiou' else ''} {name} (U+{ord(one):04X})")


def _is_invisible(one: str) -> bool:
    return one != " " and unicodedata.category(one) in ("Cc", "Cf", "Zs", "Zl", "Zp")


def require_visible(words: Sequence[str]) -> None:
    """Check that no word, name or value of a command line begins or ends with a character that nobody sees."""
    for word in words:
        for part in filter(None, (word, *word.split("=", 1))):
            for end, where in ((part[0], "begins"), (part[-1], "ends")):
                if _is_invisible(end):
                    raise BadConfiguration(
                        f"words of a command are separated by spaces, but {word!r} has a part that {where} with "
                        f"{character(end)}: remove it"
                    )


def entries(text: str) -> list[str]:
    """Return the texts of a list as typed, with or without its brackets, without quotes around a text.

    >>> entries("[-p,2222]"), entries("n[01,02];n5"), entries("['a b',c]")
    (['-p', '2222'], ['n[01,02]', 'n5'], ['a b', 'c'])
    """
    inner = text.strip()
    if inner[:1] in ("[", "("):
        inner = inner[1:].strip()
        if inner[-1:] in ("]", ")") and inner.count("[") < max(1, inner.count("]")):
            inner = inner[:-1]
    found = re.findall(r"""(?:"[^"]*"|'[^']*'|\[[^\]]*\]|[^,;"'\[])+""", inner)
    return [each.strip().strip("'\"") for each in found if each.strip()]


def as_list(option: str, text: str) -> str:
    """Return the word of a command line that sets an option to a list of these texts, quoted for a shell."""
    listed = ",".join(each if _PLAIN.fullmatch(each) else f'"{each}"' for each in entries(text))
    word = f"{option}=[{listed}]"
    return word if re.search(r"""["' $;&|<>()`*?!]""", word) is None else f"'{word}'"


def as_number(option: str, text: str, *, is_whole: bool) -> str | None:
    """Return a number as this program reads it, from another form of it: '3600' from '3,600', '1h' or '1:00:00'.

    >>> as_number("x", "3,600", is_whole=False), as_number("x", "90,5", is_whole=False), as_number("x", "x", is_whole=True)
    ('3600', '90.5', None)
    """
    plain = text.strip().rstrip(",;").replace("\N{MINUS SIGN}", "-").strip("\"'").strip()
    value: float | None = None
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+(\.\d+)?", plain, re.ASCII):
        value = float(plain.replace(",", ""))
    elif (time := re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]+)", plain, re.ASCII)) and time[2] in _SECONDS:
        value = float(time[1]) * _SECONDS[time[2]] if "seconds" in option else None
    elif re.fullmatch(r"\d+(:\d\d){1,2}", plain, re.ASCII) and "seconds" in option:
        value = float(sum(int(part) * 60**power for power, part in enumerate(reversed(plain.split(":")))))
    elif (memory := re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT])i?B?", plain, re.ASCII)) and "bytes" in option:
        value = float(memory[1]) * 1024.0 ** ("KMGT".index(memory[2]) + 1)
    elif (share := re.fullmatch(r"(\d+(?:[.,]\d+)?) ?%", plain, re.ASCII)) and not is_whole:
        value = float(share[1].replace(",", ".")) / 100
    elif re.fullmatch(r"-?\d+[,.]?\d*(e\d+)?", plain, re.ASCII):
        value = float(plain.replace(",", "."))
    if value is None or abs(value) > 1e15 or (is_whole and value != int(value)):
        return None
    return str(int(value)) if value == int(value) else f"{value:.12g}"


def as_truth(text: str) -> str | None:
    word = text.strip(" ,;'\"").lower()
    return "true" if word in ("yes", "y", "on", "1", "true") else "false" if word in ("no", "n", "off", "0") else None


def what_is_wrong(text: str) -> str:
    """Return the fault of a value that is no number, text or list, as text after 'but found …, '."""
    if odd := next((one for one in text if _is_invisible(one) or (not one.isascii() and not one.isalpha())), None):
        return f"which has {character(odd)}: type it again"
    if text.rstrip().endswith(",") or re.search(r"[\[,]\s*,|,\s*\]", text):
        return "which has a comma without a value: leave the comma out"
    for first, last in ("[]", "{}", "()"):
        if (missing := text.count(first) - text.count(last)) != 0:
            without, with_ = (last, first) if missing > 0 else (first, last)
            return f"which has a {with_!r} without its {without!r}: add it, or leave both out"
    if "(" in text or ";" in text:
        return "which has '(' or ';': write a list as [A,B], and options as separate words"
    if re.search(r"\d{4300}", text):
        return "which is a number of more than 4300 digits: give a smaller one"
    return "which has signs that need quotes"


def require_shell_words(arguments: object, *flags: str) -> None:
    """Check flags whose values are split into words as a shell does it. A flag that the command lacks is left out."""
    for flag in flags:
        split(f"--{flag}", getattr(arguments, flag, None) or "")


def split(option: str, text: str) -> list[str]:
    """Return the words of a command in the value of a flag, split as a shell does it."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BadConfiguration(
            f"{option} is words as in a shell, but found {text!r} ({str(error).lower()}): close each quote"
        ) from error
