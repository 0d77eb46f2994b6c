"""The C library's memory, kept by a process that trains on a processor instead of being given back after every step.

glibc maps an allocation of more than 32 MB anew each time, and gives the top of the heap back when it is free. A step allocates
what the step before let go of: at 224×224 that is gigabytes, which the kernel would take and hand out again zeroed by the page.
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
    """From now on memory that this process frees stays with it for its next allocations; whether the C library can do so.

    True with glibc; elsewhere nothing is changed, and False. Affects the whole process and cannot be taken back: its resident
    memory stays as large as it has ever been. ResNet-50 at 224×224, batch 16, BF16: 80,000 page faults a step without it, none
    with it, which is 0.15 of 2.7 s of processor time (2-core AMD EPYC, one thread).
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # musl
        return False
    # no allocation is mapped for itself, and the top of the heap is never given back
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, _NEVER))
