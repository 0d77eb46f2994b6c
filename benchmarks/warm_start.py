"""Seconds from the start of a run's process to its first training step, by part.

    python -m benchmarks.warm_start [--times 3] [key=value …]

Each start is a normal run on this machine, ended when its first trial is prepared. Starts run one after the other. The first
one warms the page cache and does not count. Wall time depends on other work on the machine, so the load is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from aiperf.drive.session import END_REQUEST
from aiperf.journal.journal import NAME
from benchmarks.pairs import describe_machine

WAIT_SECONDS = 300.0
PARTS = {
    "RunStarted": "imports, Ray, preflight, plan, until the journal's first line",
    "WorkerJoined": "actor, ranks with torch, data set, warm-up, largest batch, measured peak",
    "TrialPrepared": "proposal, network, weights",
}
"""Events that end the parts."""


def start(folder: Path, options: Sequence[str]) -> list[float]:
    """Return the seconds of each part of one start. Raise RuntimeError if no trial is prepared."""
    began = time.time()
    with (folder / "output").open("wb") as output:
        command = [sys.executable, "-m", "aiperf", f"runs={folder}", *options]
        with subprocess.Popen(command, stdout=output, stderr=output) as process:
            deadline = time.monotonic() + WAIT_SECONDS
            while process.poll() is None and time.monotonic() < deadline:
                for journal in folder.glob(f"*/{NAME}"):
                    ends = part_ends(journal)
                    if len(ends) == len(PARTS):
                        (journal.parent / END_REQUEST).touch()
                        process.wait()
                        return [after - before for before, after in pairwise([began, *ends])]
                time.sleep(0.05)
            process.kill()
    raise RuntimeError(f"the run prepared no trial within {WAIT_SECONDS:.0f} s. See {folder / 'output'}")


def part_ends(journal: Path) -> list[float]:
    """Return the Unix time of the first event of each part, as far as the run has come."""
    lines = [line for line in journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    events = [json.loads(line) for line in lines]
    ends = []
    for name in PARTS:
        ends += [events[0]["started_unix"] + event["at"] for event in events if event["event"] == name][:1]
    return ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("options", nargs="*", help="options of the runs")
    arguments = parser.parse_args()
    print(describe_machine())
    starts = []
    for _ in range(arguments.times + 1):
        with tempfile.TemporaryDirectory(prefix="aiperf-warm-start-", ignore_cleanup_errors=True) as folder:
            starts.append(start(Path(folder), arguments.options))
        parts = " · ".join(f"{name} {seconds:.2f}" for name, seconds in zip(PARTS, starts[-1], strict=True))
        print(f"{sum(starts[-1]):6.2f} s  {parts} | load {os.getloadavg()[0]:.2f}", flush=True)
    best = min(starts[1:], key=sum)
    print(f"\nbest of {arguments.times}: {sum(best):.2f} s until the first training step begins")
    for (name, meaning), seconds in zip(PARTS.items(), best, strict=True):
        print(f"  {name:<14} {seconds:6.2f} s  {meaning}")


if __name__ == "__main__":
    main()
