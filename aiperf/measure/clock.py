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
    """One request and its answer, in seconds since 1970.

    The head's clock gives `sent` and `returned`. The node's clock gives `received` and `answered`.
    """

    sent: float
    received: float
    answered: float
    returned: float

    @property
    def offset(self) -> float:
        """Offset of the node's clock from the head's in seconds. Positive if the node is ahead.

        Its largest possible error is `error`.
        """
        return ((self.received - self.sent) + (self.answered - self.returned)) / 2

    @property
    def error(self) -> float:
        """Largest possible error of `offset` in seconds: half of the round trip's time in the network."""
        return ((self.returned - self.sent) - (self.answered - self.received)) / 2


class Offset(msgspec.Struct, frozen=True):
    """Offset of a node's clock from the head's and its largest possible error, both in seconds.

    Positive if the node is ahead.
    """

    seconds: float
    error: float


def reading(trips: Sequence[RoundTrip]) -> ProbeReading:
    """Return the result of the clock probe: series 'offset' and 'error' in seconds, with one value for each round trip."""
    series = {"offset": [trip.offset for trip in trips], "error": [trip.error for trip in trips]}
    return ProbeReading(probe=NAME, unit=UNIT, series=series)


def offset(measured: ProbeReading) -> Offset:
    """Return the offset of a node's clock from the head's and its error in seconds, by the round trip with the smallest error.

    `measured`: result of the clock probe, with at least one round trip.

    >>> offset(reading([RoundTrip(0.0, 5.5, 5.5, 1.0), RoundTrip(2.0, 7.05, 7.05, 2.1)]))
    Offset(seconds=5.0, error=0.05)
    """
    error, seconds = min(zip(measured.series["error"], measured.series["offset"], strict=True))
    return Offset(round(seconds, 6), round(error, 6))
