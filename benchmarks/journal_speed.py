"""Time to read, report and verify a journal.

    python -m benchmarks.journal_speed JOURNAL [--sample N] [--parts] [--repeats 3]

Prints the wall time of `verify`, which runs its two passes in parallel, and the processor time and memory of both processes.
With --parts it also prints processor seconds of each part alone, one after the other: reading, score, report and both passes
of `verify`. Other work on the machine affects the least of the repetitions least. A 12-hour journal of 4096 simulated workers:

    python -m aiperf +cluster=simulated cluster.workers=4096 schedule=ranking searcher=random hpo=off
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.journal import NAME, read
from aiperf.report.write import report_of, write
from aiperf.units import count
from aiperf.verify import verify
from aiperf.verify.replayed_rules import follow
from aiperf.verify.verification import DEFAULT, read_lines, samples_of
from benchmarks.pairs import describe_machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("journal", type=Path)
    parser.add_argument("--sample", type=int, default=DEFAULT, help="proposals that verify recomputes")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--repeats", type=int, default=3, help="of each part")
    arguments = parser.parse_args()
    journal: Path = arguments.journal / NAME if arguments.journal.is_dir() else arguments.journal
    print(f"{describe_machine()}, load {os.getloadavg()[0]:.1f} at the start", flush=True)
    print_verify(journal, arguments.sample)
    if arguments.parts:
        print_parts(journal, arguments.sample, arguments.repeats)


def print_verify(journal: Path, sample: int) -> None:
    began = time.monotonic()
    found = verify(journal, sample)
    seconds = time.monotonic() - began
    megabytes = journal.stat().st_size / 1e6
    print(f"{count(found.lines)} lines, {megabytes:.0f} MB, {count(len(found.sample))} proposals recomputed")
    print(f"verify, wall        {seconds:7.1f} s; load {os.getloadavg()[0]:.1f} at the end")
    for name, who in (("this process", resource.RUSAGE_SELF), ("the second process", resource.RUSAGE_CHILDREN)):
        used = resource.getrusage(who)
        seconds, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20
        print(f"{name:18}  {seconds:7.1f} s of a processor, at most {memory:.1f} GiB")
    print("sound" if found.is_sound else f"{found.contradictions} contradictions", flush=True)


def print_parts(journal: Path, sample: int, repeats: int) -> None:
    lines = read_lines(journal)
    samples = samples_of(lines.chain, lines.answered, sample)
    with tempfile.TemporaryDirectory(prefix="journal-speed-") as folder:
        run = Path(folder)
        (run / NAME).symlink_to(journal.resolve())
        parts: dict[str, Callable[[], object]] = {
            "reading": lambda: sum(1 for _ in read(journal)),
            "reading and score": lambda: score(work_log(read(journal))),
            "figures of a report": lambda: report_of(run),
            "written report": lambda: write(report_of(run), run),
            "verify, lines": lambda: read_lines(journal),
            "verify, rules": lambda: follow(journal, samples),
        }
        for name, part in parts.items():
            print(f"{name:19} {min(processor_seconds(part) for _ in range(repeats)):7.2f} s of a processor", flush=True)


def processor_seconds(part: Callable[[], object]) -> float:
    began = time.process_time()
    part()
    return time.process_time() - began


if __name__ == "__main__":
    main()
