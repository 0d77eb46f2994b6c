"""Time to read a journal of a million events and to write its report.

python -m benchmarks.report_speed [FOLDER]   creates the journal in FOLDER if there is none (a simulated cluster of 4096 workers
                                             that always proposes the starting graph), and reads it REPEATS times

Processor seconds of one process. Other work on the machine affects the least of the repetitions least.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from aiperf.accounting.score import score
from aiperf.accounting.work_log import work_log
from aiperf.journal.journal import NAME, read
from aiperf.report.write import report_of, write
from aiperf.rules.proposals import Proposer
from aiperf.simulate.driver_restarts import drive
from aiperf.simulate.session import open_run, world_of
from aiperf.simulate.study.sweep import configured
from aiperf.units import count, size
from benchmarks.pairs import describe_machine
from searchers.searcher_config import RandomConf

SECONDS = 14_500
"""Run time of 4096 workers for a million events."""
REPEATS = 3


def main(words: list[str]) -> None:
    """Print Markdown."""
    with tempfile.TemporaryDirectory(prefix="report-speed-") as temporary:
        folder = Path(words[0]) if words else Path(temporary)
        path = folder / NAME
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            opening = open_run(configured([f"schedule.duration_seconds={SECONDS}", "schedule.warmup_seconds=900"]))
            drive(world_of(opening, Proposer(RandomConf(morphs=1).build(), None)), opening.first, path)
        measure(folder)


def measure(folder: Path) -> None:
    """Print the table of a folder with a journal."""
    events = sum(1 for _ in read(folder))
    print(f"{describe_machine()}; {count(events)} events, {size((folder / NAME).stat().st_size)}\n")
    print("| what | processor seconds, least | all |\n| --- | ---: | --- |")
    print(_row("reading, every hash verified", lambda: sum(1 for _ in read(folder))))
    print(_row("reading, work log and score", lambda: score(work_log(read(folder)))))
    print(_row("reading, folding, all figures of the report", lambda: report_of(folder)))
    print(_row("pictures, page and report.json", partial(write, report_of(folder), folder)))
    print(_row("all: from the journal to the written report", lambda: write(report_of(folder), folder)))


def _row(what: str, call: Callable[[], object]) -> str:
    taken: list[float] = []
    for _ in range(REPEATS):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return f"| {what} | {min(taken):.2f} | {', '.join(f'{seconds:.2f}' for seconds in taken)} |"


if __name__ == "__main__":
    main(sys.argv[1:])
