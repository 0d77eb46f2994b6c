"""Random generators, seeded by numbers in the journal."""

from __future__ import annotations

from hashlib import blake2b
from random import Random


def chance(*of: int | str) -> Random:
    """Return a generator seeded by words and numbers. It is the same on every machine."""
    return Random(derived(*of))


def derived(*of: int | str) -> int:
    """Return a whole number from 0 to 2³² − 1 that depends on all arguments."""
    return int.from_bytes(blake2b(repr(of).encode(), digest_size=4).digest())
