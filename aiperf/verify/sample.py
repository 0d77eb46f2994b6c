"""Which proposals are made again: drawn by the journal's last hash, which its author cannot choose freely, and others repeat.

Whoever would have the sample miss a changed proposal must change the journal, chain it anew and draw again, over and over; with
`--all`, or another size of the sample, all of that was for nothing.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Iterator
from pathlib import Path

DEFAULT = 50
"""Proposals that are made again unless another number is asked for."""
BLOCK = 1 << 20
_REQUEST = re.compile(rb'"event":"ProposalRequested"[^\n]*?"number":(\d+)')
_CHAIN = re.compile(rb'"chain":"([0-9a-f]{64})"\}\n$')


def drawn(chain: str, proposals: int, size: int | None) -> tuple[int, ...]:
    """`size` of the numbers below `proposals`, in order; all of them where `size` is None or larger.

    Those of the smallest SHA-256 over the chain and the number, both as text.
    """
    if size is None or size >= proposals:
        return tuple(range(proposals))
    return tuple(sorted(heapq.nsmallest(size, range(proposals), key=lambda number: _rank(chain, number))))


def _rank(chain: str, number: int) -> bytes:
    return hashlib.sha256(f"{chain}{number}".encode()).digest()


def last_chain(path: Path) -> str:
    """The hash that a journal's last whole line carries; '' where there is none."""
    for block in _from_the_end(path):
        whole = block[: block.rfind(b"\n") + 1]
        if whole and (found := _CHAIN.search(whole)) is not None:
            return found[1].decode()
    return ""


def proposals_requested(path: Path) -> int:
    """How many proposals a journal asks for, by its last request: they are numbered on."""
    for block in _from_the_end(path):
        found = _REQUEST.findall(block)
        if found:
            return int(found[-1]) + 1
    return 0


def _from_the_end(path: Path) -> Iterator[bytes]:
    """Ends of a file, each longer than the one before, up to the whole of it."""
    size, length = path.stat().st_size, BLOCK
    with path.open("rb") as file:
        while True:
            file.seek(max(0, size - length))
            yield file.read()
            if length >= size:
                return
            length *= 16
