"""Who may sign for whom: OpenSSH's allowed_signers file (ssh-keygen(1), "ALLOWED SIGNERS"), as far as keys go.

A line is `PRINCIPALS [OPTIONS] ssh-ed25519 AAAA… [comment]`. Certificates are refused by name: a line that we would not honour
must not look honoured.
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiperf.errors import KeyUnusable
from aiperf.files import require_file
from aiperf.submission.sshsig import NAMESPACE, NoSignature, PublicKey, public_key

_WORD = re.compile(r'\s*((?:"[^"]*"|[^\s"])+)')


@dataclass(frozen=True, slots=True)
class Allowed:
    """One line: a key, and for whom it signs."""

    principals: tuple[str, ...]
    key: PublicKey
    namespaces: tuple[str, ...] = (NAMESPACE,)
    valid_after: float | None = None
    """Seconds since 1970."""
    valid_before: float | None = None


Signers = Sequence[Allowed]


def read_allowed(path: Path) -> tuple[Allowed, ...]:
    """Raises KeyUnusable: the file cannot be read, or one of its lines cannot be honoured; the line is named. Keys of other
    kinds than Ed25519 are passed over: a site's file holds those of all its people."""
    try:
        require_file(path)
        lines = path.read_text().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise KeyUnusable(f"a list of allowed signers is a text file; '{path}' cannot be read ({error})") from error
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                found += _line(line)
            except ValueError as error:
                raise KeyUnusable(
                    f"a line of allowed signers is 'NAME [OPTIONS] ssh-ed25519 AAAA…' (man ssh-keygen); '{path}', line "
                    f"{number}: {error}"
                ) from error
    return tuple(found)


def principals_of(signers: Signers, key: PublicKey, at_unix: float) -> tuple[str, ...]:
    """For whom a key might sign at a time; empty: for nobody."""
    return tuple(
        principal
        for line in signers
        if line.key == key
        and NAMESPACE in line.namespaces
        and (line.valid_after is None or line.valid_after <= at_unix)
        and (line.valid_before is None or at_unix < line.valid_before)
        for principal in line.principals
    )


def _line(line: str) -> list[Allowed]:
    words = [word.group(1) for word in _WORD.finditer(line)]
    if len(words) < 3:
        raise ValueError(f"found {line.strip()!r}")
    principals = tuple(words[0].strip('"').split(","))
    options, rest = ("", words[1:]) if _is_kind(words[1]) else (words[1], words[2:])
    if not rest or not _is_kind(rest[0]):
        raise ValueError(f"found no kind of key in {line.strip()!r}")
    if rest[0] != "ssh-ed25519":
        return []
    told = _options(options)
    after, before = (None if name not in told else _time(told[name]) for name in ("valid-after", "valid-before"))
    try:
        key = public_key(" ".join(rest))
    except NoSignature as error:
        raise ValueError(str(error)) from error
    return [
        Allowed(
            principals,
            key,
            tuple(told["namespaces"].split(",")) if "namespaces" in told else (NAMESPACE,),
            after,
            before,
        )
    ]


def _is_kind(word: str) -> bool:
    return word.startswith(("ssh-", "ecdsa-", "sk-")) and "=" not in word


def _options(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in re.findall(r'(?:"[^"]*"|[^,"])+', text):
        name, _, value = option.partition("=")
        if name not in ("namespaces", "valid-after", "valid-before"):
            raise ValueError(f"{name!r} is not honoured here; namespaces, valid-after and valid-before are")
        found[name] = value.strip('"')
    return found


def _time(text: str) -> float:
    """YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, of the local clock, or of UTC with a Z after it."""
    digits = text.removesuffix("Z")
    form = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}.get(len(digits))
    if form is None or not digits.isdigit():
        raise ValueError(f"a time is YYYYMMDD[HHMM[SS]][Z]; found {text!r}")
    parsed = time.strptime(digits, form)
    return float(timegm(parsed)) if text.endswith("Z") else time.mktime(parsed)
