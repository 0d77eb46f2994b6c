"""Cost of a simulated cluster of 64, 512 and 4096 workers: driver time per event, proposals per second, memory.

    python -m benchmarks.rehearsal [--without-search] [key=value …]

With --without-search proposals are the cheapest ones, so that mostly the driver is measured. Printed are processor seconds of
one process, which other work on the machine affects little. Options as for `python -m aiperf rehearse`.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from aiperf.config import RunConf
from aiperf.journal.journal import NAME
from aiperf.rules.proposals import Proposer
from aiperf.simulate.driver_restarts import SimulationCost, drive
from aiperf.simulate.session import open_run, world_of
from aiperf.simulate.study.sweep import configured
from aiperf.units import count, duration, size
from benchmarks.pairs import describe_machine
from cluster.simulated import SimulatedConf
from searchers.searcher_config import RandomConf

SIZES = (64, 512, 4096)
WITHOUT_SEARCH = "--without-search"


def main(arguments: Sequence[str]) -> None:
    """Print Markdown."""
    conf = configured([argument for argument in arguments if argument != WITHOUT_SEARCH])
    proposer = Proposer(RandomConf(morphs=1).build(), None) if WITHOUT_SEARCH in arguments else None
    simulated = duration(conf.schedule.duration_seconds)
    print(f"{describe_machine()}; {' '.join(arguments) or 'defaults'}; {simulated} simulated\n")
    print(
        "| workers | events | of one processor | driver | per event | machines | proposals | a second | journal | memory |"
    )
    print("| ---: " * 10 + "|")
    for workers in SIZES:
        print(row(workers, *simulate(conf, workers, proposer)), flush=True)


def simulate(conf: RunConf, workers: int, proposer: Proposer | None) -> tuple[SimulationCost, int]:
    """Return the cost of one run, and the size of its journal in bytes."""
    assert isinstance(conf.cluster, SimulatedConf)
    opening = open_run(replace(conf, cluster=replace(conf.cluster, workers=workers)))
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        path = Path(folder) / NAME
        return drive(world_of(opening, proposer), opening.first, path), path.stat().st_size


def row(workers: int, cost: SimulationCost, journal_bytes: int) -> str:
    """Return one size as a row of Markdown. 'machines' is the cost of the simulated machines without proposals."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    machines = cost.executor_seconds - cost.proposing_seconds
    rate = cost.proposals / cost.proposing_seconds if cost.proposing_seconds else 0.0
    return (
        f"| {count(workers)} | {count(cost.events)} | {duration(cost.seconds)} | {duration(cost.driver_seconds)} "
        f"| {cost.driver_seconds / cost.events * 1e6:.1f} µs | {duration(machines)} "
        f"| {count(cost.proposals)} | {rate:.0f} | {size(journal_bytes)} | {size(memory)} |"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
