"""Time to verify a journal, in total and by part.

python -m benchmarks.verify_speed JOURNAL [--sample N] [--parts]

Prints the wall time of `verify`, which runs its two passes in parallel, and the processor time and memory of both processes.
With --parts it also prints the processor seconds of reading alone and of each pass alone, one after the other, which takes
three times as long. A 12-hour journal of 4096 simulated workers: python -m aiperf +cluster=simulated cluster.workers=4096
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
from aiperf.verify.replayed_rules import follow
from aiperf.verify.sample import DEFAULT
from aiperf.verify.verification import samples_of


def seconds(work: Callable[[], object]) -> float:
    """Return the processor seconds of this process."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """Measure, and print one line per part."""
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
        f"{count(found.lines)} lines, {journal.stat().st_size / 1e6:.0f} MB, {count(len(found.sample))} proposals recomputed"
    )
    print(f"verify, wall        {whole:7.1f} s; load {os.getloadavg()[0]:.1f} at the end")
    for words, who in (("this process", resource.RUSAGE_SELF), ("the second process", resource.RUSAGE_CHILDREN)):
        used = resource.getrusage(who)
        print(
            f"{words:18}  {used.ru_utime + used.ru_stime:7.1f} s of a processor, {used.ru_maxrss / 2**20:.1f} GiB at most"
        )
    print("sound" if found.is_sound else f"{found.contradictions} contradictions", flush=True)
    if arguments.parts:
        lines = read_lines(journal)
        looked = samples_of(lines.chain, lines.answered, arguments.sample)
        parts: dict[str, Callable[[], object]] = {
            "reading alone": lambda: sum(1 for _ in read(journal)),
            "all lines": lambda: read_lines(journal),
            "by the rules again": lambda: follow(journal, looked),
        }
        for name, part in parts.items():
            print(f"{name:18}  {seconds(part):7.1f} s of a processor", flush=True)


if __name__ == "__main__":
    main()
