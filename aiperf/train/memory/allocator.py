"""Allocator settings of glibc for a process that trains on a CPU.

By default glibc maps each allocation above 32 MB separately and returns free memory at the top of the heap to the
kernel. A training step allocates what the previous step freed: gigabytes at 224×224, which the kernel would zero page
by page.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

# malloc.h
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_MAX: Final = -4
_NEVER: Final = 2**31 - 1


def keep_freed_memory() -> bool:
    """Keep freed memory in this process for later allocations. Return False if the C library cannot.

    Only glibc supports it. The setting affects the whole process and is permanent: resident memory stays at its
    maximum. ResNet-50 at 224×224, batch 16, BF16 has 80,000 page faults per step without it and none with it, which is
    0.15 of 2.7 s of processor time (2-core AMD EPYC, one thread).
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    # no separate mappings, and no trimming of the heap
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, _NEVER))
