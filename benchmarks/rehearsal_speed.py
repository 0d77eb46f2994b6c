"""Processor time of a rehearsal by its two parts: a line of the journal, and a proposal with the counts of its network.

    python -m benchmarks.rehearsal_speed [--workers 512] [--minutes 10] [--proposals 40] [--pairs 7]

Each part is measured in interleaved pairs with plain Python that does comparable work. A line: the standard library reads,
writes and hashes the same lines. A proposal: its network is built, checked, counted and hashed without its parent. The exit
status is 1 if a ratio is surely above its limit.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from aiperf.config import configure
from aiperf.journal.journal import NAME
from aiperf.rules.proposals import of_proposal
from aiperf.simulate.session import Opening, drive, open_run, world_of
from aiperf.statistics.interleaved import Ratio, interleaved
from benchmarks.pairs import describe_machine
from benchmarks.proposal_speed import invented, space
from morphism import Graph, choices, cost
from searchers.growth import own_size
from searchers.history import History, Request
from searchers.propose import propose
from searchers.searcher_config import RandomConf

MOST_OF_A_LINE, MOST_OF_A_PROPOSAL = 5.0, 0.75
"""Limits of the ratios to plain Python."""


class Proposals:
    """Proposals of one history, each with a new number."""

    def __init__(self, finished: int, number: int) -> None:
        self.history, self.searcher, self.number = History(space()), RandomConf().build(), number
        self.history.observe(invented(finished))
        self.next = len(self.history.trials)
        self.networks: list[Graph] = []

    def make(self) -> float:
        """Return the seconds of one proposal with the counts of its network."""
        numbers = range(self.next, self.next + self.number)
        self.next, self.networks = numbers.stop, []
        began = time.process_time()
        found = [propose(self.searcher, self.history, Request(number, 1, 1), None) for number in numbers]
        for one in found:
            of_proposal(self.history, one.parent, one.morphs)
        seconds = time.process_time() - began
        self.networks = [self.history.grown(one.parent, one.morphs) for one in found]
        return seconds / self.number

    def build_plainly(self) -> float:
        budget = self.history.space.budget
        began = time.process_time()
        for network in self.networks:
            plain = Graph(network.nodes)
            assert budget.allows(cost(plain)) and plain.fingerprint == network.fingerprint
            assert own_size(plain) and choices(plain, budget).kinds()
        return (time.process_time() - began) / len(self.networks)


class Lines:
    """Lines of one simulated run."""

    def __init__(self, folder: Path, workers: int, minutes: float) -> None:
        self.journal, self.opening = folder / NAME, opening_of(workers, minutes)

    def simulate(self) -> float:
        """Return the seconds of a line, without those of the proposals."""
        self.journal.unlink(missing_ok=True)
        effort = drive(world_of(self.opening), self.opening.first, self.journal)
        return (effort.seconds - effort.proposing_seconds) / effort.events

    def read_plainly(self) -> float:
        began, chain = time.process_time(), b""
        lines = self.journal.read_bytes().splitlines()
        for line in lines:
            chain = hashlib.sha256(chain + json.dumps(json.loads(line)).encode()).hexdigest().encode()
        return (time.process_time() - began) / len(lines)


def opening_of(workers: int, minutes: float) -> Opening:
    words = ["+cluster=simulated", "schedule=ranking", "searcher=random", "hpo=off", "schedule.warmup_seconds=60"]
    return open_run(
        configure([*words, f"cluster.workers={workers}", f"schedule.duration_seconds={round(60 * minutes)}"])
    )


def measured(workers: int, minutes: float, proposals: int, pairs: int) -> tuple[Ratio, Ratio]:
    """Return the ratios of a line and of a proposal to plain Python. Their measurements are seconds."""
    made = Proposals(500, proposals)
    made.make()
    with tempfile.TemporaryDirectory(prefix="rehearsal-speed-") as folder:
        lines = Lines(Path(folder), workers, minutes)
        return interleaved(lines.simulate, lines.read_plainly, pairs), interleaved(made.make, made.build_plainly, pairs)


def too_slow(of_a_line: Ratio, of_a_proposal: Ratio) -> Iterable[str]:
    """Return a text for each ratio whose interval is wholly above its limit."""
    for what, ratio, most in (
        ("a line", of_a_line, MOST_OF_A_LINE),
        ("a proposal", of_a_proposal, MOST_OF_A_PROPOSAL),
    ):
        if ratio.low > most:
            yield f"{what} must take at most {most} times as long as plain Python, but takes {ratio}: profile it"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=512)
    parser.add_argument("--minutes", type=float, default=10.0, help="of the simulated run")
    parser.add_argument("--proposals", type=int, default=40, help="of each measurement")
    parser.add_argument("--pairs", type=int, default=7)
    arguments = parser.parse_args()
    print(f"{describe_machine()}; {arguments.workers} workers; processor time", flush=True)
    ratios = measured(arguments.workers, arguments.minutes, arguments.proposals, arguments.pairs)
    for what, unit, scale, ratio in zip(("a line", "a proposal"), ("µs", "ms"), (1e6, 1e3), ratios, strict=True):
        print(f"{what}: {scale * sorted(ratio.a)[len(ratio.a) // 2]:.2f} {unit} in the median, ÷ plain Python {ratio}")
    faults = list(too_slow(*ratios))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
