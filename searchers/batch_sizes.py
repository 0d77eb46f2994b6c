"""Batch sizes of an accelerator, in images: multiples of 8, and of 32 from 128 on. No library is imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LEAST: Final = 8
"""Smallest batch, and the step of those below COARSE_FROM. The matrix units of accelerators prefer multiples of 8."""
COARSE_FROM: Final = 128
BATCH_STEP: Final = 32
"""Step of batches from COARSE_FROM on. cuDNN and torch.compile prepare each size anew, so that a run needs few."""
LARGEST_BATCH: Final = 8192
"""Larger batches are not tried: they are no faster and train worse."""


def rounded_down(batch: int, step: int = BATCH_STEP) -> int:
    """Return the largest batch size up to `batch`, 0 below 8. `step`: the one from 128 on.

    >>> rounded_down(135), rounded_down(127), rounded_down(135, step=8), rounded_down(7)
    (128, 120, 128, 0)
    """
    step = step if batch >= COARSE_FROM else LEAST
    return batch // step * step


def nearest(batch: int, lowest: int, highest: int, step: int) -> int:
    """Return the batch size from `lowest` to `highest` nearest to `batch`, the smaller of two. `lowest` if there is none.

    >>> [nearest(batch, 64, 448, 32) for batch in (72, 144, 152, 448)], nearest(138, 130, 150, 32), nearest(138, 130, 150, 8)
    ([72, 128, 160, 448], 130, 138)
    """
    if batch < COARSE_FROM or step == LEAST:
        return batch
    sizes = [size for size in (batch // step * step, -(-batch // step) * step) if lowest <= size <= highest]
    return min(sizes, key=lambda size: abs(size - batch), default=lowest)


def smaller(batch: int) -> int | None:
    """Return the next smaller batch to try: 3/4 of `batch`, rounded down to a batch size, at least 8.

    None from 8 downwards.

    >>> smaller(448), smaller(16), smaller(8)
    (320, 8, None)
    """
    return max(LEAST, rounded_down(batch * 3 // 4)) if batch > LEAST else None


def largest(fits: Callable[[int], bool]) -> int:
    """Largest batch size up to 8192 that fits, 0 if none. Accurate to 3 % or a step, as each call may cost a training step.

    >>> largest(lambda batch: batch <= 700), largest(lambda batch: batch < 8)
    (672, 0)
    """
    low, high = 0, LEAST
    while high <= LARGEST_BATCH and fits(high):
        low, high = high, high * 2
    high = min(high, LARGEST_BATCH + BATCH_STEP)
    while high - low > max(BATCH_STEP if low >= COARSE_FROM else LEAST, low // 32):  # to 3 %: TPE moves well below
        middle = rounded_down((low + high) // 2)
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
