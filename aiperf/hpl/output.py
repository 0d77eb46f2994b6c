"""Reader of HPL's output. A rate counts only if all residual checks PASSED and GFLOPS follow from N and seconds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiperf.errors import BadConfiguration
from aiperf.given_file import read_text
from aiperf.hpl.model import Pmap, operations

_WHOLE = r"\s+(\d{1,12})"
_NUMBER = r"\s+(\d+(?:\.\d*)?(?:[eE][-+]?\d{1,3})?)"
_RESULT = re.compile(rf"^(.*?)(?<!\w)W([RC])\w*{4 * _WHOLE}{_NUMBER}{_NUMBER}((?:\s+\S+)*)\s*$")
_LIKE_RESULT = re.compile(r"(?<!\w)W[RC]\d\w*(\s+\d+){2}")
_COLUMN = re.compile(rf"\(?{_NUMBER.replace('+', '*', 1)}\s*\)?")
_TIMER = re.compile(rf"^(.*?)\+? ?Max aggregated wall time ([a-z ]+?)[ .]*:{_NUMBER}\s*$")
_CHECK = re.compile(r"^(.*?)\|\|Ax-b\|\|.*\.\.\.\s*(PASSED|FAILED)")
_MIXED = re.compile(r"(?<![\w/.-])HPL[-_ ]?(?:MxP|AI)(?![\w/.])", re.IGNORECASE)
_MIXED_RESULT = re.compile(
    r"\.\.\.+\s*(PASSED|FAILED)\s+N =\s*(\d{1,12}), NB =\s*(\d{1,12}), NPROW =\s*(\d{1,12}), NPCOL =\s*(\d{1,12})[^\n]*\n"
    rf"\s*GFLOPS ={_NUMBER.replace('+', '*', 1)}[^\n]*\n\s*LU GFLOPS ={_NUMBER.replace('+', '*', 1)}"
)
"""Result of HPL-MxP: residual check, sizes, GFLOPS with and LU GFLOPS without the refinement. It prints no time."""
_END = "End of Tests."
ROUNDING = 0.005
"""Seconds. HPL prints two decimals."""
LONGEST_LINE = 1024
"""Characters of a line that are read. HPL's own have at most 80."""
TIMER_SECONDS = 0.01
"""Seconds. Last place of HPL's timers: a smaller difference of a part is not seen."""
SHORTEST = 2 * ROUNDING
"""Seconds. HPL prints a shorter time as 0.00."""
LARGEST = 256 << 20
"""Bytes of an output. NVIDIA's HPL prints a line of progress every few seconds."""


@dataclass(frozen=True, slots=True)
class Measured:
    n: int
    nb: int
    p: int
    q: int
    pmap: Pmap
    seconds: float
    gflops: float
    timers: Mapping[str, float]
    """HPL's detailed timers in seconds, empty without HPL_DETAILED_TIMING. Largest value over all ranks."""
    others_share: float = 0.0
    """Share of the processor time that other programs used beside the run, as far as it was measured."""

    @property
    def parts(self) -> dict[str, float] | None:
        """Measured seconds of each part: panel, update, pivot, broadcast and swap. None without detailed timers."""
        if not self.timers:
            return None
        of = self.timers.get
        factor, swaps = of("rfact", 0.0), of("laswp", 0.0)
        pivot, update = of("mxswp", 0.0), of("update", 0.0)
        known = {"panel": factor - pivot, "update": update - swaps, "pivot": pivot, "swap": swaps}
        return {**known, "broadcast": max(0.0, self.seconds - factor - update)}


@dataclass(frozen=True, slots=True)
class Output:
    runs: tuple[Measured, ...]
    too_short: tuple[str, ...]
    """Runs whose time is printed as 0.00 s, such as 'N 29, 4 x 3'. Nothing can be explained about them."""
    mixed: str | None = None
    """Name of a benchmark in mixed precision, such as 'HPL-MxP', to which the output belongs."""


def read_output(path: Path) -> Output:
    """Return the runs in the file of an output of HPL. For errors see `parsed`."""
    return parsed(read_text(path, "an output of HPL is a text file", largest=LARGEST, errors="replace"), str(path))


def parsed(text: str, name: str) -> Output:
    """Return the runs in an output of HPL: order, grid, seconds, GFLOPS and timers of each."""
    mixed = _MIXED.search(text)
    if mixed is not None and "LU GFLOPS" in text:
        return Output(tuple(_mixed_runs(text, name)), (), mixed[0])
    runs: list[Measured] = []
    too_short: list[str] = []
    current: tuple[re.Match[str], dict[str, float]] | None = None
    is_checked = False

    def end() -> None:
        if current is not None and not is_checked:
            raise BadConfiguration(
                f"each result of HPL has a residual check, but '{name}' has none for N {current[0][3]}: the output is cut "
                "short, or the threshold in HPL.dat is 0"
            )
        if current is not None:
            run = _checked(current[0], current[1], name)
            if run.seconds < SHORTEST:
                too_short.append(f"N {run.n}, {run.p} x {run.q}")
            else:
                runs.append(run)

    for number, line in enumerate(text.splitlines(), 1):
        line = line[:LONGEST_LINE]
        if (result := _RESULT.match(line)) is not None:
            end()
            if current is not None and _shape(result[1]) != _shape(current[0][1]):
                raise BadConfiguration(
                    f"all lines of an output have one prefix, but line {number} of '{name}' begins with {result[1][:80]!r}, a "
                    f"result before it with {current[0][1][:80]!r}: give the output of one program"
                )
            current, is_checked = (result, {}), False
        elif _LIKE_RESULT.search(line) is not None:
            raise BadConfiguration(
                f"a result of HPL has N, NB, P, Q, seconds and GFLOPS, but line {number} of '{name}' is "
                f"{line.strip()[:120]!r}: use the original output"
            )
        elif current is not None and (timer := _TIMER.match(line)) is not None:
            current[1][timer[2].strip()] = float(timer[3])
        elif current is not None and (check := _CHECK.match(line)) is not None:
            if check[2] == "FAILED":
                raise BadConfiguration(
                    f"a figure counts only if HPL's residual checks PASSED, but '{name}' has FAILED in line {number} "
                    f"(N {current[0][3]}): the result is wrong, check BLAS and memory"
                )
            is_checked = True
    end()
    if _END not in text:
        raise BadConfiguration(f"an output of HPL ends with '{_END}', but '{name}' is cut short: run HPL again")
    if not runs:
        short = f" of {SHORTEST} s or more, but '{name}' has 0.00 s for {'; '.join(too_short[:3])}: run larger N"
        none = f" with W…, N, NB, P, Q, seconds, GFLOPS, but '{name}' has none: check HPL.dat"
        raise BadConfiguration(f"an output of HPL has results{short if too_short else none}")
    return Output(tuple(runs), tuple(too_short), None if mixed is None else mixed[0])


def _mixed_runs(text: str, name: str) -> Iterator[Measured]:
    """Yield the factorisations in an output of HPL-MxP. It does not print the placement of the ranks: row-major."""
    results = [each.groups() for each in _MIXED_RESULT.finditer(text)]
    if len(results) != text.count("LU GFLOPS") or any(each[0] == "FAILED" for each in results):
        raise BadConfiguration(
            f"each result of HPL-MxP has a residual check that PASSED, N, NB, NPROW, NPCOL and GFLOPS, but '{name}' has one "
            "without: use the original output of a valid run"
        )
    for _, n, nb, p, q, _, gflops in results:
        rate = float(gflops)
        if not rate > 0:
            raise BadConfiguration(
                f"LU GFLOPS are above 0, but '{name}' has {gflops} for N {n}: use the original output"
            )
        yield Measured(int(n), int(nb), int(p), int(q), "row", operations(int(n)) / rate / 1e9, rate, {})


def _shape(prefix: str) -> str:
    """Return a prefix without the words and numbers that differ from line to line: rank, host, time."""
    return "".join(re.sub(r"\w+", "0", prefix).split())


def _checked(result: re.Match[str], timers: dict[str, float], name: str) -> Measured:
    _, order, n, nb, p, q, seconds_text, gflops_text, further = result.groups()
    seconds, gflops = float(seconds_text), float(gflops_text)
    low, high = (
        operations(int(n)) / (seconds + each) / 1e9 if seconds + each > 0 else float("inf")
        for each in (ROUNDING, -ROUNDING)
    )
    # HPL counts 2N³/3 + 3N²/2 operations and prints four digits
    if not (0.998 * low <= gflops <= 1.002 * high):
        raise BadConfiguration(
            f"GFLOPS are (2N³/3 + 3N²/2) / seconds, but '{name}' has {gflops:g} for N {n} and {seconds:g} s, which give "
            f"{low:.4g} to {high:.4g}: the output was changed, use the original"
        )
    ranks = int(p) * int(q)
    for column in _COLUMN.findall(further):
        parts = gflops / float(column) if float(column) else 0.0
        if not (round(parts) and ranks % round(parts) == 0 and abs(parts / round(parts) - 1) < 0.005):
            raise BadConfiguration(
                f"a column behind GFLOPS is GFLOPS per rank or node, but '{name}' has {column} behind {gflops:g} of {ranks} "
                f"ranks (N {n}): the output was changed, use the original"
            )
    if _COLUMN.sub("", further).strip():
        raise BadConfiguration(
            f"the columns behind GFLOPS are numbers, but '{name}' has {further.strip()[:80]!r} (N {n}): use the original output"
        )
    return Measured(int(n), int(nb), int(p), int(q), "row" if order == "R" else "column", seconds, gflops, timers)
