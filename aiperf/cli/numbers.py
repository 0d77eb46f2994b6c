"""Numbers among a verb's arguments: each says its limits, which its help shows, and what lies outside is refused.

The limits are those of options (`aiperf.option_limits`): bounds by name, every number finite, whole ones of 64 bits.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from aiperf.errors import BadConfiguration
from aiperf.option_limits import Limits


def add_number(
    parser: argparse.ArgumentParser,
    option: str,
    meaning: str,
    kind: type[int] | type[float] = int,
    *,
    metavar: str = "N",
    default: float | None = None,
    default_in_words: str | None = None,
    **bounds: float,
) -> None:
    """Adds an argument that takes a number. `bounds`: least, above, most, below; `default_in_words`: where it is no number."""
    limits = Limits((kind,), False, False, bounds)
    shown = f"{default:g}" if default_in_words is None and default is not None else default_in_words
    parser.add_argument(
        option,
        type=_reader(option, limits, kind),
        metavar=metavar,
        default=default,
        help=f"{meaning} ({limits.described}{'' if shown is None else f'; default {shown}'})".replace("%", "%%"),
    )


def _reader(option: str, limits: Limits, kind: type[int] | type[float]) -> Callable[[str], float]:
    def read(word: str) -> float:
        try:
            value = kind(word)
        except ValueError:
            value = None
        if value is None or not limits.take(value):
            raise BadConfiguration(
                f"{option} takes a {limits.described.partition(';')[0]} that {limits.words}; found {word!r}: give such a one, "
                "or leave it out"
            )
        return value

    return read
