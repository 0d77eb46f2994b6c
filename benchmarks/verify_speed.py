"""How long verifying a journal takes, and what costs what.

python -m benchmarks.verify_speed JOURNAL [--sample N]

Prints processor seconds of both passes, each alone, and the wall time of the whole, which has them side by side. A 12-hour
journal of 4096 simulated workers: python -m aiperf +cluster=simulated cluster.workers=4096 schedule=ranking
"""

from __future__ import annotations

import argparse
import os
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
    arguments = parser.parse_args()
    journal: Path = arguments.journal / NAME if arguments.journal.is_dir() else arguments.journal
    looked = looked_at(journal, arguments.sample)

    print(f"{cpu_model()}, {len(os.sched_getaffinity(0))} processors, load {os.getloadavg()[0]:.1f} at the beginning")
    reading = seconds(lambda: sum(1 for _ in read(journal)))
    lines = seconds(lambda: read_lines(journal))
    rules = seconds(lambda: follow(journal, looked))
    began = time.monotonic()
    found = verify(journal, arguments.sample)
    whole = time.monotonic() - began
    print(f"{count(found.lines)} lines, {journal.stat().st_size / 1e6:.0f} MB, {count(looked.requested)} proposals")
    print(f"reading alone       {reading:7.1f} s of a processor")
    print(f"all lines           {lines:7.1f} s, reading included")
    print(f"by the rules again  {rules:7.1f} s: {len(looked.built)} architectures, {len(looked.proposals)} proposals")
    print(f"verify, wall        {whole:7.1f} s, both side by side; load {os.getloadavg()[0]:.1f} at the end")
    print("sound" if found.is_sound else f"{found.contradictions} contradictions")


if __name__ == "__main__":
    main()
