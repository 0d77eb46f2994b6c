"""How long verifying a journal takes, and what costs what.

python -m benchmarks.verify_speed JOURNAL [--sample N] [--parts]

Prints the wall time of `verify`, which has its two passes side by side, and the processor time and memory of both processes.
With --parts, processor seconds of reading alone and of either pass alone besides, one after the other: that takes three times
as long again. A 12-hour journal of 4096 simulated workers: python -m aiperf +cluster=simulated cluster.workers=4096
schedule=ranking searcher=random hpo=off
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

from aiperf.journal.journal import NAME, read
from aiperf.system.processor import cpu_model
from aiperf.units import count
from aiperf.verify import verify
from aiperf.verify.lines import read_lines
from aiperf.verify.rules_again import follow
from aiperf.verify.sample import DEFAULT
from aiperf.verify.verification import looked_at


def seconds(work: Callable[[], object]) -> float:
    """Of this process's processor."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """Measures, and prints a line a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--sample", type=int, default=DEFAULT)
    parser.add_argument("--parts", action="store_true")
    arguments = parser.parse_args()
    journal: Path = arguments.journal / NAME if arguments.journal.is_dir() else arguments.journal

    print(
        f"{cpu_model()}, {len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f} at the beginning",
        flush=True,
    )
    began = time.monotonic()
    found = verify(journal, arguments.sample)
    whole = time.monotonic() - began
    print(
        f"{count(found.lines)} lines, {journal.stat().st_size / 1e6:.0f} MB, {count(len(found.sample))} proposals made again"
    )
    print(f"verify, wall        {whole:7.1f} s; load {os.getloadavg()[0]:.1f} at the end")
    for words, who in (("this process", resource.RUSAGE_SELF), ("the one beside it", resource.RUSAGE_CHILDREN)):
        used = resource.getrusage(who)
        print(
            f"{words:18}  {used.ru_utime + used.ru_stime:7.1f} s of a processor, {used.ru_maxrss / 2**20:.1f} GiB at most"
        )
    print("sound" if found.is_sound else f"{found.contradictions} contradictions", flush=True)
    if arguments.parts:
        looked = looked_at(journal, arguments.sample)
        parts: dict[str, Callable[[], object]] = {
            "reading alone": lambda: sum(1 for _ in read(journal)),
            "all lines": lambda: read_lines(journal),
            "by the rules again": lambda: follow(journal, looked),
        }
        for name, part in parts.items():
            print(f"{name:18}  {seconds(part):7.1f} s of a processor", flush=True)


if __name__ == "__main__":
    main()
