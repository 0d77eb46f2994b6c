"""How many proposals are repeats where workers ask together.

    python -m benchmarks.distinct [--workers 1 8 64 512] [--searcher morphism] [--trials-per-worker 4]

First table: N requests that all see one history, an empty one and one of 200 finished trials from ResNet-50: what comes of it
when nobody can know of the others. Second: a simulated run of N workers that join at once (schedule=ranking), to its first
N · trials-per-worker finished trials: trials that repeat the architecture of an earlier one, what the driver rejected, and how
much is blind, proposed before any trial had finished.
Counts, not times: other work on the machine changes none of them. One simulated run is one draw; the seed is printed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiperf.config import configure
from aiperf.journal.events import AnyEvent, TrialFinished, TrialProposed, TrialRejected
from aiperf.journal.journal import NAME, read
from aiperf.rng import derive
from aiperf.simulate.incarnations import drive
from aiperf.simulate.session import open_run, world_of
from benchmarks.pairs import describe_machine
from benchmarks.proposal_speed import SEARCHERS, invented, space
from searchers import History, Request, Searcher, propose

FINISHED = (0, 200)


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a simulated run."""

    trials: int
    repeats: int
    """Trials whose architecture was an earlier trial's."""
    rejected: Counter[str]
    """By reason, numbers left out."""
    blind: int
    """Trials that were proposed before any had finished."""
    blind_rejected: int
    """Proposals that were rejected before any trial had finished."""


def together(searcher: Searcher, finished: int, requests: int) -> tuple[int, int]:
    """Of so many requests that see one history: the different architectures, and how often the most frequent came."""
    history = History(space())
    history.tell(invented(finished))
    first = len(history.trials) or 1  # number 0 is the starting graph
    fingerprints: Counter[str] = Counter()
    for number in range(first, first + requests):
        proposal = propose(searcher, history, Request(number, 1, derive(0, "proposal", number)), None)
        fingerprints[history.grown(proposal.parent, proposal.morphs).fingerprint] += 1
    return len(fingerprints), max(fingerprints.values())


def simulated(searcher: str, workers: int, trials: int, seed: int = 0, options: Sequence[str] = ()) -> Counts:
    """A run of so many workers that join at once, until so many trials have finished."""
    words = ["+cluster=simulated", f"cluster.workers={workers}", "cluster.join_seconds=0", "schedule=ranking"]
    words += ["dataset=imagenet", f"searcher={searcher}", f"limits.trials={trials}", f"seed={seed}", *options]
    opening = open_run(configure(words))
    with tempfile.TemporaryDirectory(prefix="distinct-") as folder:
        path = Path(folder) / NAME
        drive(world_of(opening), opening.first, path)
        return counted(list(read(path)))


def counted(events: Sequence[AnyEvent]) -> Counts:
    """Repeats and rejections of a journal."""
    seen: set[str] = set()
    trials = repeats = finished = blind = blind_rejected = 0
    rejected: Counter[str] = Counter()
    for event in events:
        if isinstance(event, TrialProposed):
            trials += 1
            repeats += event.fingerprint in seen
            seen.add(event.fingerprint)
            blind += not finished
        elif isinstance(event, TrialFinished):
            finished += 1
        elif isinstance(event, TrialRejected):
            blind_rejected += not finished
            rejected["".join("N" if letter.isdigit() else letter for letter in event.reason)] += 1
    return Counts(trials, repeats, rejected, blind, blind_rejected)


def main() -> None:
    """Prints Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 64, 512])
    parser.add_argument("--searcher", choices=SEARCHERS, default="morphism")
    parser.add_argument("--trials-per-worker", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    searcher = SEARCHERS[asked.searcher]().build()
    print(f"{describe_machine()}; {asked.searcher} from resnet50_v1, seed {asked.seed}\n")
    print("| requests that see one history | finished trials in it | different | the most frequent |")
    print("| ---: | ---: | ---: | ---: |")
    for finished in FINISHED:
        for requests in asked.workers:
            different, most = together(searcher, finished, requests)
            print(f"| {requests} | {finished} | {different} | {most} |", flush=True)
    print("\n| workers joining at once | trials proposed | blind | repeats | rejected | rejected, blind |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for workers in asked.workers:
        counts = simulated(asked.searcher, workers, workers * asked.trials_per_worker, asked.seed)
        rejected = f"{counts.rejected.total()} | {counts.blind_rejected}"
        print(f"| {workers} | {counts.trials} | {counts.blind} | {counts.repeats} | {rejected} |", flush=True)
        for reason, times in counts.rejected.most_common(3):
            print(f"    {times} × {reason}")


if __name__ == "__main__":
    main()
