"""Rates per rank of the measuring tools of `bops`: two ranks and two processes of one rank at a time (goal: within 25 %)."""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aiperf.bops.run import LEAST_SECONDS, SIZES, Tool, ratio, tool
from benchmarks.pairs import describe_machine

FLAGS, EXPRESSION = "-O2", "a+b|^q.*x$"


def rate(chosen: Tool, operations: int) -> float:
    """Return BOPs per second and rank."""
    program = chosen.built(FLAGS)
    passes = math.ceil(LEAST_SECONDS / chosen.timed(program, 1)[0])
    return operations / chosen.timed(program, passes)[0] / chosen.ranks


def rate_of_processes(alone: list[Tool], operations: int) -> float:
    """Return the mean rate of processes that run at the same time, so that the load is that of as many ranks."""
    with ThreadPoolExecutor(len(alone)) as threads:
        return statistics.fmean(threads.map(lambda each: rate(each, operations), alone))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("tools", nargs="*", default=[*SIZES], metavar="TOOL", help=", ".join(SIZES))
    arguments = parser.parse_args()
    print(describe_machine())
    for name in arguments.tools:
        with tempfile.TemporaryDirectory() as root:
            folders = [Path(root) / str(number) for number in range(3)]
            for folder in folders:
                folder.mkdir()
            *alone, both = (
                tool(name, folder, None, ranks, EXPRESSION) for folder, ranks in zip(folders, (1, 1, 2), strict=True)
            )
            operations = [side.source_count(FLAGS).bops for side in (alone[0], both)]
            pairs = [
                (rate_of_processes(alone, operations[0]), rate(both, operations[1])) for _ in range(arguments.pairs)
            ]
        value, (low, high) = ratio([two for _, two in pairs], [one for one, _ in pairs])
        rates = " ".join(f"{one / 1e6:.0f}/{two / 1e6:.0f}" for one, two in pairs)
        print(
            f"{name}: {operations[0]:,} and {operations[1]:,} BOPs, MBOPS per rank of two processes/two ranks {rates}"
        )
        print(
            f"{name}: two ranks ÷ two processes, per rank {value:.2f} ({low:.2f}–{high:.2f}, {len(pairs)} pairs)",
            flush=True,
        )


if __name__ == "__main__":
    main()
