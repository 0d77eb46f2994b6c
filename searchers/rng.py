"""Chance that is derived from numbers in the journal, never from hidden state."""

from __future__ import annotations

from hashlib import blake2b
from random import Random


def chance(*of: int | str) -> Random:
    """A generator seeded by these words and numbers: the same on every machine, whatever was drawn before."""
    return Random(derived(*of))


def derived(*of: int | str) -> int:
    """A whole number from 0 to 2³² − 1 that depends on all of these."""
    return int.from_bytes(blake2b(repr(of).encode(), digest_size=4).digest())
