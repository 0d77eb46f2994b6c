"""Convergence of the running score: the time from which it stays near its final value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiperf.accounting.score import CurvePoint
from aiperf.accounting.valid_window import Window

SHARES = (0.05, 0.02, 0.01)
"""Half widths of the bands, as shares of the final score."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Last entry of the running score into a band around its final value."""

    share: float
    """Half the band's width, as a share of the final score."""
    at: float
    """Time from which the score stays inside the band. The end of the curve if it never stays before."""
    part_of_window: float
    """Share of the window before `at`. Near 1: the window is too short for this precision."""


def settled(curve: Sequence[CurvePoint], inside: Window, shares: Sequence[float] = SHARES) -> tuple[Settled, ...]:
    """Return the convergence of a score's curve for each band. Empty without work in the window.

    Convergence in the past does not prove that a longer run would keep the value.
    """
    points = [(point.at, point.flops_per_second) for point in curve if point.flops_per_second is not None]
    if not points or not points[-1][1]:
        return ()
    last_at, last = points[-1]
    bands = []
    for share in shares:
        since = last_at
        for at, value in reversed(points):
            if abs(value / last - 1) > share:
                break
            since = at
        bands.append(Settled(share, since, (since - inside.start) / inside.seconds))
    return tuple(bands)
