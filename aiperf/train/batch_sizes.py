"""Batch sizes of a rank: multiples of 8, the next smaller one, and the largest that fits. No torch here."""

from __future__ import annotations

from collections.abc import Callable

from aiperf.rules.search_space import STEPS
from aiperf.train.trainer_config import LARGEST_BATCH
from morphism import Architecture, Graph, cost_of

LEAST = 8
"""Smallest batch per accelerator of a search. All its batches are multiples of it."""


def bounds(
    default: int, smallest: int | None, largest: int | None, training_images: int, ranks: int
) -> tuple[int, int]:
    """Return (batch before tuning, largest batch that may be proposed), in images per rank (training process) and step.

    >>> bounds(448, None, None, 1_281_167, 8), bounds(64, 64, 128, 1437, 2), bounds(64, 64, 128, 1437, 16)
    ((448, 8007), (64, 128), (64, 89))
    """
    most = training_images // ranks
    return min(default, most), min(largest, most) if largest else max(smallest or LEAST, most // STEPS)


def smaller(batch: int) -> int | None:
    """Return the next smaller batch to try: 3/4 of `batch`, rounded down to a multiple of 8, at least 8.

    None from 8 downwards.

    >>> smaller(448), smaller(16), smaller(8)
    (336, 8, None)
    """
    return max(LEAST, batch * 3 // 4 // LEAST * LEAST) if batch > LEAST else None


def largest(fits: Callable[[int], bool]) -> int:
    """Largest multiple of 8 up to 8192 that fits, 0 if none. Accurate to 3 %, as each call may cost a training step.

    >>> largest(lambda batch: batch <= 700), largest(lambda batch: batch < 8)
    (688, 0)
    """
    low, high = 0, LEAST
    while high <= LARGEST_BATCH and fits(high):
        low, high = high, high * 2
    high = min(high, LARGEST_BATCH + LEAST)
    while high - low > max(LEAST, low // 32):  # to 3 %: TPE moves well below the ceiling
        middle = (low + high) // 2 // LEAST * LEAST
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def least_batch(network: Architecture) -> int:
    """8 images. 1 for a detector, which is trained at its default batch."""
    return LEAST if isinstance(network, Graph) else 1


def nothing_fits(network: Architecture, bytes_per_element: int, allowed: int) -> str:
    least = least_batch(network)
    needed = cost_of(network).training_memory(least, bytes_per_element)
    return (
        f"a starting network must fit into an accelerator's memory at batch {least}; this one needs {needed} bytes or more by "
        f"the model, and {allowed} may be used (memory × trainer.ceiling_share). Take a smaller one (start=…), or more memory"
    )
