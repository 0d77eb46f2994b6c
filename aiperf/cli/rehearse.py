"""`python -m aiperf rehearse`: simulated clusters from 1 to 4096 workers."""

from __future__ import annotations

from collections.abc import Sequence


def main(words: Sequence[str]) -> int:
    """Carries the verb out; gives the exit status."""
    from aiperf.simulate.sweep import main as rehearse

    return rehearse(list(words))
