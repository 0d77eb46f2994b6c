"""Seed of an announced run. The ranking accepts no other seed, so that nobody chooses the best of several."""

from __future__ import annotations


def announced_seed(announcement: str) -> int:
    """Return the seed of an announcement: the first 8 hexadecimal digits of its id as a number.

    The id is the SHA-256 of the signed announcement, so nobody knows the seed before the announcement is signed.

    >>> announced_seed("0000002a" + 56 * "f")
    42
    """
    return int(announcement[:8], 16)
