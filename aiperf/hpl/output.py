"""Reader of HPL's output. A rate counts only if the residual check PASSED and GFLOPS follow from N and seconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aiperf.errors import BadConfiguration
from aiperf.hpl.model import Pmap, operations

_NUMBER = r"\s+([-+.\deE]+)"
_RESULT = re.compile(rf"^W([RC])\S+\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+){_NUMBER}{_NUMBER}\s*$")
_TIMER = re.compile(r"^\+? ?Max aggregated wall time ([a-z ]+?)[ .]*:\s*([\d.]+)\s*$")
_CHECK = re.compile(r"^\|\|Ax-b\|\|.*\.\.\.\s+(PASSED|FAILED)")
_END = "End of Tests."
ROUNDING = 0.005
"""Seconds. HPL prints two decimals."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured run of HPL."""

    n: int
    nb: int
    p: int
    q: int
    pmap: Pmap
    seconds: float
    gflops: float
    timers: Mapping[str, float]
    """HPL's detailed timers in seconds, empty without HPL_DETAILED_TIMING. Largest value over all ranks."""

    @property
    def parts(self) -> dict[str, float] | None:
        """Measured seconds of each part: panel, update, pivot, broadcast and swap. None without detailed timers.

        'broadcast' is the rest of the run and contains waiting.
        """
        if not self.timers:
            return None
        of = self.timers.get
        factor, swaps = of("rfact", 0.0), of("laswp", 0.0)
        pivot, update = of("mxswp", 0.0), of("update", 0.0)
        known = {"panel": factor - pivot, "update": update - swaps, "pivot": pivot, "swap": swaps}
        return {**known, "broadcast": max(0.0, self.seconds - factor - update)}


def parsed(text: str, name: str) -> list[Measured]:
    """Return the measured runs in an output of HPL: order, grid, seconds, GFLOPS and timers of each. `text`: output.

    `name`: name of the output for messages. Raise BadConfiguration if the output is cut short or has no run, a run FAILED or
    was not checked, or GFLOPS do not follow from N and seconds.
    """
    runs: list[Measured] = []
    current: tuple[re.Match[str], dict[str, float]] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _RESULT.match(line)) is not None:
            if current is not None:
                raise _unchecked(name, current[0])
            current = found, {}
        elif current is not None and (timer := _TIMER.match(line)) is not None:
            current[1][timer[1].strip()] = float(timer[2])
        elif current is not None and (check := _CHECK.match(line)) is not None:
            if check[1] == "FAILED":
                raise BadConfiguration(
                    f"a figure counts only if HPL's residual check PASSED, but '{name}' has FAILED in line {number} "
                    f"(N {current[0][2]}): the result is wrong, check BLAS and memory"
                )
            runs.append(_checked(current[0], current[1], name))
            current = None
    if current is not None:
        raise _unchecked(name, current[0])
    if _END not in text:
        raise BadConfiguration(f"an output of HPL ends with '{_END}', but '{name}' is cut short: run HPL again")
    if not runs:
        raise BadConfiguration(
            f"an output of HPL has lines with W…, N, NB, P, Q, seconds, GFLOPS, but '{name}' has none: check HPL.dat"
        )
    return runs


def _unchecked(name: str, result: re.Match[str]) -> BadConfiguration:
    return BadConfiguration(
        f"each result of HPL has a residual check, but '{name}' has none for N {result[2]}: the output is cut short, or the "
        "threshold in HPL.dat is 0"
    )


def _checked(result: re.Match[str], timers: dict[str, float], name: str) -> Measured:
    order, n, nb, p, q, seconds_text, gflops_text = result.groups()
    seconds, gflops = float(seconds_text), float(gflops_text)
    low, high = (
        operations(int(n)) / (seconds + each) / 1e9 if seconds + each > 0 else float("inf")
        for each in (ROUNDING, -ROUNDING)
    )
    # HPL counts 2N³/3 + 3N²/2 operations and prints four digits
    if not (seconds > 0 and 0.998 * low <= gflops <= 1.002 * high):
        raise BadConfiguration(
            f"GFLOPS are (2N³/3 + 3N²/2) / seconds, but '{name}' has {gflops:g} for N {n} and {seconds:g} s, which give "
            f"{low:.4g} to {high:.4g}: the output was changed, use the original"
        )
    return Measured(int(n), int(nb), int(p), int(q), "row" if order == "R" else "column", seconds, gflops, timers)
