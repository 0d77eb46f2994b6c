"""Since when a running score has stayed near its end: what a shorter run would have said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aiperf.accounting.score import CurvePoint
from aiperf.accounting.windows import Window

SHARES = (0.05, 0.02, 0.01)
"""Of the score; how near is near."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The running score's last entry into a band around where it ended."""

    share: float
    """Half the band's width, as a share of the score."""
    at: float
    """From this moment of the curve on it stayed inside. The curve's last moment: it never stayed before."""
    part_of_window: float
    """Of the window, what had passed by then; near 1: the window was too short for such a precision."""


def settled(curve: Sequence[CurvePoint], inside: Window, shares: Sequence[float] = SHARES) -> tuple[Settled, ...]:
    """Of a score's curve and its window, for each band. Nothing where the window never began, or nothing was done in it.

    This is about how the number came to stand where it stands. It is no proof that it would have stayed there.
    """
    points = [(point.at, point.flops_per_second) for point in curve if point.flops_per_second is not None]
    if not points or not points[-1][1]:
        return ()
    last_at, last = points[-1]
    found = []
    for share in shares:
        since = last_at
        for at, value in reversed(points):
            if abs(value / last - 1) > share:
                break
            since = at
        found.append(Settled(share, since, (since - inside.start) / inside.seconds))
    return tuple(found)
