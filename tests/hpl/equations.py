"""Equations of the paper by Kim, Oh and Park (2021) that no prediction needs: single panels, and sums in closed form.

Numbers in brackets are those of the paper. Symbols and units are those of aiperf/hpl/model.py.
"""

from __future__ import annotations

from math import log2

from aiperf.hpl.model import Link


def panel_compute(i: int, n: float, nb: int, p: int, gamma: float) -> float:
    """Return (1), computation: seconds of factorising panel i."""
    return gamma * ((n - i * nb) / p - nb / 3) * nb**2


def panel_pivot(nb: int, p: int, link: Link) -> float:
    """Return (1), pivot search. (1) prints 2NB words, but (12) and (27) need 2NB + 4."""
    return nb * log2(p) * (link.alpha + link.beta * (2 * nb + 4))


def panel_broadcast(i: int, n: float, nb: int, p: int, link: Link) -> float:
    """Return (1), broadcast of panel i along the process row."""
    return link.alpha + link.beta * (n - i * nb) * nb / p


def update_compute(i: int, n: float, nb: int, p: int, q: int, gamma: float) -> float:
    """Return (2), computation: seconds of the update after panel i."""
    rest = n - (i - 1) * nb
    return gamma * (rest * nb**2 / q + 2 * rest**2 * nb / (p * q))


def update_swap(i: int, n: float, nb: int, p: int, q: int, link: Link) -> float:
    """Return (2), communication: exchange of rows along the process column."""
    return link.alpha * (log2(p) + p - 1) + 3 * link.beta * (n - (i - 1) * nb) * nb / q


def original_seconds(n: float, nb: int, p: int, q: int, gamma: float, link: Link) -> float:
    """Return (3): leading terms of one layer, the model that HPL publishes. (4) and (5) are its two summands."""
    compute = gamma * 2 * n**3 / (3 * p * q)
    exchange = link.alpha * n * ((nb + 1) * log2(p) + p) / nb + link.beta * n**2 * (3 * p + q) / (2 * p * q)
    return compute + exchange


def compute_seconds(n: float, nb: int, p: int, q: int, gamma: float) -> float:
    """Return (11) and (25), with N instead of N² in the third term."""
    third = nb**2 * ((3 * p + 2) - (2 * p + 3) * q) * n
    return gamma * (2 * n**3 / 3 + (nb * (3 * q + 3 * p + 6) * n**2 + third) / 6) / (p * q)


def exchange_seconds(n: float, nb: int, p: int, q: int, link: Link) -> float:
    """Return (12) with the factor (4·P·log P − 1)·Q."""
    first = link.alpha * n * ((nb + 1) * log2(p) + p) / nb + link.beta * n**2 * (q + 3 * p) / (2 * p * q)
    rest = nb * ((4 * p * log2(p) - 1) * q + 3 * p) + 8 * p * q * log2(p)
    return first + link.beta * n * rest / (2 * p * q)
