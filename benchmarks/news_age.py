"""How old the news are that a trial was proposed by, when it begins.

    python -m benchmarks.news_age RUN …                      of journals (a run's folder, or its journal)
    python -m benchmarks.news_age --workers 50 [--workers 64 …] [key=value …]    of simulated runs of 12 hours

A proposal knows the journal up to its request. For every trial that began: the time from its request to its beginning, and how
many trials of the run finished in between. *Blind* is one that was asked for before any trial of the run had finished; each
worker's first one has to be. *Begun late* is what was not asked for in its worker's last trial, but stood by for longer.
Besides the accelerators' busy time, and the share of their time in which a worker was there and had no trial (the gap line of
the time breakdown). Counts and simulated time: other work on the machine changes none of them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from aiperf.accounting.score import score, window
from aiperf.accounting.time_breakdown import time_breakdown
from aiperf.accounting.work_log import work_log
from aiperf.config import configure
from aiperf.journal.events import AnyEvent, ProposalRequested, TrialFinished, TrialStarted
from aiperf.journal.journal import NAME, read
from aiperf.simulate.incarnations import drive
from aiperf.simulate.session import open_run, world_of
from aiperf.units import duration
from benchmarks.pairs import describe_machine

SIMULATED = ("+cluster=simulated", "schedule=ranking", "dataset=imagenet")


@dataclass(frozen=True, slots=True)
class Beginning:
    """A trial, when it begins."""

    first_of_worker: bool
    blind: bool
    seconds: float
    """Since its proposal was asked for."""
    finished: int
    """Trials of the run that finished in between."""
    trials_before: int
    """How many trials its worker had begun since then."""


def beginnings(events: Iterable[AnyEvent]) -> list[Beginning]:
    """Of a journal, in its order; attempts after the first are no beginnings."""
    asked: dict[int, tuple[float, int, int]] = {}
    begun: dict[int, int] = {}
    finished = 0
    found = []
    for event in events:
        if isinstance(event, ProposalRequested):
            asked[event.number] = (event.at, finished, begun.get(event.worker, 0))
        elif isinstance(event, TrialFinished):
            finished += 1
        elif isinstance(event, TrialStarted) and event.attempt == 1:
            at, known, trials = asked.pop(event.trial)
            before = begun.get(event.worker, 0)
            found.append(Beginning(before == 0, known == 0, event.at - at, finished - known, before - trials))
            begun[event.worker] = before + 1
    return found


def simulated(workers: int, options: Sequence[str], path: Path) -> None:
    """Writes the journal of a simulated run."""
    opening = open_run(configure([*SIMULATED, f"cluster.workers={workers}", *options]))
    drive(world_of(opening), opening.first, path)


def row(name: str, path: Path) -> str:
    """A journal, as a row of Markdown. Ages are of trials that were not their worker's first."""
    found = beginnings(read(path))
    later = [each for each in found if not each.first_of_worker]
    seconds, finished = [each.seconds for each in later] or [0.0], [each.finished for each in later] or [0]
    kept = work_log(read(path))
    busy = score(kept).busy_share or 0.0
    gap = next(line.share for line in time_breakdown(kept, window(kept)).lines if line.name == "gap")
    blind = sum(each.blind for each in later)
    return (
        f"| {name} | {len(found)} | {len(found) - len(later)} | {blind} "
        f"| {duration(median(seconds))} | {duration(max(seconds))} | {median(finished):.0f} | {max(finished)} "
        f"| {sum(each.trials_before > 1 for each in later)} | {100 * busy:.3f} % | {100 * gap:.4f} % |"
    )


def main() -> None:
    """Prints Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, action="append", default=[])
    parser.add_argument("words", nargs="*", help="journals, or options of the simulated runs")
    asked = parser.parse_args()
    print(f"{describe_machine()}; {' '.join(asked.words) or 'defaults'}\n")
    print(
        "| run | trials begun | first ones | blind besides | age, median | largest | finished meanwhile, median | most "
        "| begun late | busy | gap |"
    )
    print("| --- " + "| ---: " * 10 + "|")
    for workers in asked.workers:
        with tempfile.TemporaryDirectory(prefix="news-age-") as folder:
            simulated(workers, asked.words, Path(folder) / NAME)
            print(row(f"{workers} workers", Path(folder) / NAME), flush=True)
    for name in asked.words if not asked.workers else []:
        print(row(name, Path(name)), flush=True)


if __name__ == "__main__":
    main()
