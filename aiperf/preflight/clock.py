"""By how much a node's clock is off the head's: the arithmetic of NTP (RFC 5905, section 8) over a few round trips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from aiperf.preflight.reading import Reading

NAME, UNIT = "clock", "seconds"
ROUND_TRIPS = 8


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """One question and its answer, in seconds since 1970: the head's clock when it asked and heard, the node's when it was
    asked and answered."""

    asked: float
    received: float
    answered: float
    heard: float

    @property
    def offset(self) -> float:
        """Of the node's clock: above 0 it is ahead. Right where both ways take equally long; off by `error` at most."""
        return ((self.received - self.asked) + (self.answered - self.heard)) / 2

    @property
    def error(self) -> float:
        """Half the time on the way."""
        return ((self.heard - self.asked) - (self.answered - self.received)) / 2


class Offset(msgspec.Struct, frozen=True):
    """A node's, by its shortest round trip."""

    seconds: float
    error: float


def reading(trips: Sequence[RoundTrip]) -> Reading:
    """All of them, raw."""
    series = {"offset": [trip.offset for trip in trips], "error": [trip.error for trip in trips]}
    return Reading(probe=NAME, unit=UNIT, series=series)


def offset(told: Reading) -> Offset:
    """That of the shortest round trip, which was disturbed least.

    >>> offset(reading([RoundTrip(0.0, 5.5, 5.5, 1.0), RoundTrip(2.0, 7.05, 7.05, 2.1)]))
    Offset(seconds=5.0, error=0.05)
    """
    error, seconds = min(zip(told.series["error"], told.series["offset"], strict=True))
    return Offset(round(seconds, 6), round(error, 6))
