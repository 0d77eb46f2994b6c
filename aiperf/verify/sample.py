"""Sample of the costly checks, drawn by the journal's last hash, so that everybody draws the same.

The author of a journal does not know the sample before the last line is written. To move a changed proposal out of the
sample, an author must change and chain the journal repeatedly. `--all` or another sample size still finds it.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Sequence
from pathlib import Path

from aiperf.files import bounded_lines
from aiperf.journal.sealed_log import LONGEST_LINE

DEFAULT = 50
"""Number of recomputed proposals. Default of `--sample`."""
_ANSWER = re.compile(rb'\{"event":"Trial(?:Proposed|Rejected)","at":[^,]+,"number":(\d{1,10}),')
_CHAIN = re.compile(rb'"chain":"([0-9a-f]{64})"\}\n$')


def drawn(chain: str, numbers: Sequence[int], size: int | None) -> tuple[int, ...]:
    """Return `size` of the numbers, in ascending order, or all of them if `size` is None or larger.

    These are the numbers of the smallest SHA-256 over the chain and the number, both as text.
    """
    if size is None or size >= len(numbers):
        return tuple(sorted(numbers))
    return tuple(sorted(heapq.nsmallest(size, numbers, key=lambda number: _rank(chain, number))))


def _rank(chain: str, number: int) -> bytes:
    return hashlib.sha256(f"{chain}{number}".encode()).digest()


def expected(path: Path) -> tuple[str, list[int]]:
    """Return the last hash and the numbers of the answered proposals, from a fast scan of the lines.

    The scan is right for every journal that a driver wrote. The caller must compare it with the parsed lines, because a forger
    can write lines in another form.
    """
    numbers: list[int] = []
    last = b""
    with path.open("rb", buffering=1 << 20) as file:
        for line in bounded_lines(file, LONGEST_LINE):
            if (
                line.startswith((b'{"event":"TrialP', b'{"event":"TrialR'))
                and (found := _ANSWER.match(line)) is not None
            ):
                numbers.append(int(found[1]))
            if line[-1] == 0x0A:
                last = line
    chain = _CHAIN.search(last)
    return "" if chain is None else chain[1].decode(), numbers
