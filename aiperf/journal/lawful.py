"""Checks of the values in a journal's lines, and the bounds of every number."""

from __future__ import annotations

LARGEST = 2**31
"""Upper bound of every number of workers, trials, attempts, epochs and images in a batch."""
LARGEST_COUNT = 2**53
"""Upper bound of every count of images, bytes and operations of one image. Exact in floating point."""
LARGEST_SECONDS = 1e12
YEAR_10000 = 253_402_300_800


class ImpossibleLine(Exception):
    """A line that no run can write. The text is the rule and the offending value."""


def must(holds: bool, law: str, offence: str) -> None:
    if not holds:
        raise ImpossibleLine(f"{law}; found {offence}")


def whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ImpossibleLine(f"{name} is a whole number from {least} to {most}; found {value!r}")


def seconds(name: str, value: float) -> None:
    if not 0 <= value <= LARGEST_SECONDS:
        raise ImpossibleLine(f"{name} is at least 0 s; found {value!r}")
