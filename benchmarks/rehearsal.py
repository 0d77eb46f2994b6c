"""Cost of a simulated cluster at several sizes, and a profile of one size.

python -m benchmarks.rehearsal [key=value …]             64, 512 and 4096 workers: cost per event, proposals per second, memory
python -m benchmarks.rehearsal --profile [key=value …]   functions with most time in one run of cluster.workers
python -m benchmarks.rehearsal --without-search …        either, with the cheapest proposals: mostly the driver

Processor seconds of one process, which other work on the machine affects little. Options as for `python -m aiperf rehearse`.
"""

from __future__ import annotations

import cProfile
import io
import pstats
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
SHOWN = 25
OPTIONS = ("--profile", "--without-search")


def main(words: Sequence[str]) -> None:
    """Print Markdown."""
    conf = configured([word for word in words if word not in OPTIONS])
    assert isinstance(conf.cluster, SimulatedConf)
    proposer = Proposer(RandomConf(morphs=1).build(), None) if "--without-search" in words else None
    print(
        f"{describe_machine()}; {' '.join(words) or 'defaults'}; {duration(conf.schedule.duration_seconds)} simulated\n"
    )
    if "--profile" in words:
        print(profiled(conf, conf.cluster.workers, proposer))
        return
    print(
        "| workers | events | of one processor | driver | per event | machines | proposals | a second | journal | memory |"
    )
    print("| ---: " * 10 + "|")
    for workers in SIZES:
        print(row(workers, *once(conf, workers, proposer)), flush=True)


def once(conf: RunConf, workers: int, proposer: Proposer | None) -> tuple[SimulationCost, int]:
    """Return the cost of one run, and the size of its journal in bytes."""
    assert isinstance(conf.cluster, SimulatedConf)
    opening = open_run(replace(conf, cluster=replace(conf.cluster, workers=workers)))
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        path = Path(folder) / NAME
        return drive(world_of(opening, proposer), opening.first, path), path.stat().st_size


def row(workers: int, effort: SimulationCost, journal_bytes: int) -> str:
    """Return one size as a row of Markdown. 'machines' is the cost of the simulated machines without proposals."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    machines = effort.executor_seconds - effort.proposing_seconds
    rate = effort.proposals / effort.proposing_seconds if effort.proposing_seconds else 0.0
    return (
        f"| {count(workers)} | {count(effort.events)} | {duration(effort.seconds)} | {duration(effort.driver_seconds)} "
        f"| {effort.driver_seconds / effort.events * 1e6:.1f} µs | {duration(machines)} "
        f"| {count(effort.proposals)} | {rate:.0f} | {size(journal_bytes)} | {size(memory)} |"
    )


def profiled(conf: RunConf, workers: int, proposer: Proposer | None) -> str:
    """Return the profile of one run. cProfile makes everything about twice as slow, so only the shares are meaningful."""
    profiler = cProfile.Profile()
    profiler.enable()
    once(conf, workers, proposer)
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(SHOWN)
    return text.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
