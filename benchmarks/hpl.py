"""Time of predictions of HPL: one prediction at any N, and all grids of a machine of 152,064 ranks.

    python -m benchmarks.hpl

Goals: one prediction in at most 10 ms, all grids in at most 1 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from aiperf.hpl.listing import predictions
from aiperf.hpl.model import Layer, System, predict
from benchmarks.pairs import describe_machine

REPEATS = 20


def main() -> None:
    system = System("Fugaku", 152_064, 3.4e12, (Layer("HBM2", 1, 1e-7, 1e11), Layer("TofuD", 152_064, 1e-6, 6.8e9)))
    print(describe_machine())
    for n in (4000, 400_000, 20_459_520):
        print(f"one prediction, N {n}: {1e3 * best(partial(predict, system, n, 192, 8, 8)):.3f} ms")
    print(f"all grids of {system.ranks} ranks: {best(lambda: predictions(system, 20_459_520, 384)):.4f} s")


def best(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest of several calls."""
    seconds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


if __name__ == "__main__":
    main()
