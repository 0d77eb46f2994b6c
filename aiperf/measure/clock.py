"""Offset of a node's clock from the clock of the head node, by the NTP formula (RFC 5905, section 8) over a few round trips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from aiperf.measure.probe import ProbeReading

NAME, UNIT = "clock", "seconds"
ROUND_TRIPS = 8


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """One request and its answer, in seconds since 1970: by the head's clock, the node's (twice), and the head's."""

    sent: float
    received: float
    answered: float
    returned: float

    @property
    def offset(self) -> float:
        """Seconds by which the node's clock is ahead of the head's."""
        return ((self.received - self.sent) + (self.answered - self.returned)) / 2

    @property
    def error(self) -> float:
        return ((self.returned - self.sent) - (self.answered - self.received)) / 2


class Offset(msgspec.Struct, frozen=True):
    """Seconds by which a node's clock is ahead of the head's, and their largest possible error."""

    seconds: float
    error: float


def reading(trips: Sequence[RoundTrip]) -> ProbeReading:
    series = {"offset": [trip.offset for trip in trips], "error": [trip.error for trip in trips]}
    return ProbeReading(probe=NAME, unit=UNIT, series=series)


def offset(measured: ProbeReading) -> Offset:
    """Return the offset of the round trip with the smallest error.

    >>> offset(reading([RoundTrip(0.0, 5.5, 5.5, 1.0), RoundTrip(2.0, 7.05, 7.05, 2.1)]))
    Offset(seconds=5.0, error=0.05)
    """
    error, seconds = min(zip(measured.series["error"], measured.series["offset"], strict=True))
    return Offset(round(seconds, 6), round(error, 6))
