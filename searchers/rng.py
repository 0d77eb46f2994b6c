"""Random generators that give the same numbers on every machine, seeded by numbers in the journal."""

from __future__ import annotations

from hashlib import blake2b
from random import Random


def chance(*of: int | str) -> Random:
    """Return a random generator seeded by words and numbers. Equal arguments give equal sequences on every machine."""
    return Random(derived(*of))


def derived(*of: int | str) -> int:
    """Return an integer from 0 to 2³² − 1 that is a hash of all arguments."""
    return int.from_bytes(blake2b(repr(of).encode(), digest_size=4).digest())
