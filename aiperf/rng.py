"""Seeds of random number generators, derived by hashing from the seed of the run. All randomness of a run comes from them."""

from __future__ import annotations

import hashlib


def derive(seed: int, purpose: str, *numbers: int) -> int:
    """Return a seed in 0 … 2^63 − 1 for one random number generator. Equal arguments give an equal seed on every machine.

    `seed`: seed of the run. `purpose`: name of the use, such as 'proposal'. `numbers`: numbers that distinguish several uses,
    such as the number of the proposal.

    >>> derive(0, "proposal", 7) == derive(0, "proposal", 7) != derive(0, "weights", 7)
    True
    """
    text = ":".join([str(seed), purpose, *map(str, numbers)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
