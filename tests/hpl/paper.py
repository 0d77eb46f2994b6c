"""Equations of the paper that the product does not use: one panel, i from 1, and closed forms of whole runs."""

from __future__ import annotations

from math import log2

from aiperf.hpl.model import Link


def panel_compute(i: int, n: float, nb: int, p: int, gamma: float) -> float:
    """Return the seconds of factorising one panel (block of nb columns): computation in equation (1).

    `i`: number of the panel, from 1. `n`: matrix order. `p`: rows of the process grid. `gamma`: seconds per operation.
    """
    return gamma * ((n - i * nb) / p - nb / 3) * nb**2


def panel_pivot(nb: int, p: int, link: Link) -> float:
    """Return the seconds of the pivot search in one panel (block of nb columns), equation (1).

    Equation (1) prints 2NB words, but (12) and (27) need 2NB + 4. `p`: rows of the process grid. `link`: cost of messages
    within a process column.
    """
    return nb * log2(p) * (link.alpha + link.beta * (2 * nb + 4))


def panel_broadcast(i: int, n: float, nb: int, p: int, link: Link) -> float:
    """Return the seconds of broadcasting one panel (block of nb columns) along the process row, equation (1).

    `i`: number of the panel, from 1. `n`: matrix order. `p`: rows of the process grid. `link`: cost of messages within a
    process row.
    """
    return link.alpha + link.beta * (n - i * nb) * nb / p


def update_compute(i: int, n: float, nb: int, p: int, q: int, gamma: float) -> float:
    """Return the seconds of updating the rest of the matrix after one panel: computation in equation (2).

    `i`: number of the panel, from 1. `n`: matrix order. `nb`: block size. `p` × `q`: process grid. `gamma`: seconds per
    operation.
    """
    rest = n - (i - 1) * nb
    return gamma * (rest * nb**2 / q + 2 * rest**2 * nb / (p * q))


def update_swap(i: int, n: float, nb: int, p: int, q: int, link: Link) -> float:
    """Return the seconds of exchanging rows along the process column after one panel: communication in equation (2).

    `i`: number of the panel, from 1. `n`: matrix order. `nb`: block size. `p` × `q`: process grid. `link`: cost of messages
    within a process column.
    """
    return link.alpha * (log2(p) + p - 1) + 3 * link.beta * (n - (i - 1) * nb) * nb / q


def original_seconds(n: float, nb: int, p: int, q: int, gamma: float, link: Link) -> float:
    """Return the seconds of a whole run by the model that HPL publishes: one layer, leading terms only, equation (3).

    Equations (4) and (5) are its two summands. `n`: matrix order. `nb`: block size. `p` × `q`: process grid. `gamma`: seconds
    per operation. `link`: cost of messages.
    """
    compute = gamma * 2 * n**3 / (3 * p * q)
    exchange = link.alpha * n * ((nb + 1) * log2(p) + p) / nb + link.beta * n**2 * (3 * p + q) / (2 * p * q)
    return compute + exchange


def compute_seconds(n: float, nb: int, p: int, q: int, gamma: float) -> float:
    """Return the seconds of all computation of a run, equations (11) and (25), with N instead of N² in the third term.

    `n`: matrix order. `nb`: block size. `p` × `q`: process grid. `gamma`: seconds per operation.
    """
    third = nb**2 * ((3 * p + 2) - (2 * p + 3) * q) * n
    return gamma * (2 * n**3 / 3 + (nb * (3 * q + 3 * p + 6) * n**2 + third) / 6) / (p * q)


def exchange_seconds(n: float, nb: int, p: int, q: int, link: Link) -> float:
    """Return the seconds of all communication of a run with one layer, equation (12) with the factor (4·P·log P − 1)·Q.

    `n`: matrix order. `nb`: block size. `p` × `q`: process grid. `link`: cost of messages.
    """
    first = link.alpha * n * ((nb + 1) * log2(p) + p) / nb + link.beta * n**2 * (q + 3 * p) / (2 * p * q)
    rest = nb * ((4 * p * log2(p) - 1) * q + 3 * p) + 8 * p * q * log2(p)
    return first + link.beta * n * rest / (2 * p * q)
