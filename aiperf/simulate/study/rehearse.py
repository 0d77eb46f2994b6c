"""Simulated clusters of several sizes, compared with perfect scaling.

Perfect scaling is the number of workers × the hosts' mean speed × the mean score of one worker without faults over several
seeds. One seed would depend on the few networks that a single worker finds. Busy times are also compared, because they do not
depend on the networks found.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from aiperf.accounting.accelerator_time import accelerator_time, time_breakdown
from aiperf.accounting.score import score
from aiperf.accounting.valid_window import Window, window
from aiperf.accounting.work_log import WorkLog, work_log
from aiperf.config import RunConf
from aiperf.journal.journal import NAME, read
from aiperf.simulate.driver_restarts import drive
from aiperf.simulate.session import open_run, world_of
from cluster.simulated import SimulatedConf

SEEDS_ALONE = 16
"""Runs of one worker whose mean defines perfect scaling."""
BUSY = ("training", "communication", "validation")
"""Lines of the time breakdown with busy accelerators."""


@dataclass(frozen=True, slots=True)
class SingleWorkerMean:
    """Mean over seeds of one worker of exactly the configured speed, without faults."""

    score_flops_per_second: float
    standard_error: float
    """Standard error of that mean, as a share of it."""
    busy_share: float


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """Result for one cluster size. Costs are processor seconds of one process."""

    workers: int
    accelerators: int
    score_flops_per_second: float
    perfect_flops_per_second: float
    """workers × the hosts' mean speed × score of one worker of the configured speed."""
    standard_error: float
    """Standard error of the perfect score, as a share of it."""
    efficiency: float
    """Score ÷ perfect score: usual weak scaling. Above 1 if the networks found suit accelerators better."""
    busy_efficiency: float
    """Accelerators' busy time ÷ that of one worker alone: it shows the cost of waiting for other workers and for the driver.
    """
    busy_share: float
    shares: dict[str, float]
    """Accelerator time by line, as shares of the whole. 'done again' is busy time whose work no longer counts and is in no
    other line."""
    trials: int
    events: int
    proposals: int
    seconds: float
    """Duration of the whole simulation."""
    driver_seconds: float
    proposing_seconds: float
    driver_seconds_per_event: float
    """Includes the check of proposals."""
    simulated_seconds_per_driver_second: float
    proposals_per_second: float
    """Proposals per second of the searcher's time."""
    journal_bytes: int
    memory_bytes: int
    """Maximum memory of the process so far."""


def sizes(largest: int) -> list[int]:
    """Return 1, 4, 16, … up to the largest, which is always included.

    >>> sizes(4096), sizes(100)
    ([1, 4, 16, 64, 256, 1024, 4096], [1, 4, 16, 64, 100])
    """
    result = [1]
    while result[-1] * 4 < largest:
        result.append(result[-1] * 4)
    return result if largest <= 1 else [*result, largest]


def alone(conf: RunConf, seeds: int = SEEDS_ALONE) -> SingleWorkerMean:
    """Return the reference of perfect scaling. The first seed is the configuration's own."""
    assert isinstance(conf.cluster, SimulatedConf)
    calm = replace(conf, cluster=replace(conf.cluster, workers=1, speed_spread=0.0, faults=[]))
    nothing = SingleWorkerMean(1.0, 0.0, 1.0)
    runs = [rehearse(replace(calm, seed=conf.seed + number), 1, nothing) for number in range(seeds)]
    scores = [each.score_flops_per_second for each in runs]
    mean = statistics.fmean(scores)
    spread = statistics.stdev(scores) / len(scores) ** 0.5 if len(scores) > 1 else 0.0
    return SingleWorkerMean(mean, spread / mean, statistics.fmean(each.busy_share for each in runs))


def rehearse(conf: RunConf, workers: int, reference: SingleWorkerMean) -> Rehearsed:
    """Simulate a cluster of `workers` workers and score its journal."""
    assert isinstance(conf.cluster, SimulatedConf)
    opening = open_run(replace(conf, cluster=replace(conf.cluster, workers=workers)))
    world = world_of(opening)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        path = Path(folder) / NAME
        effort = drive(world, opening.first, path)
        kept = work_log(read(path))
        journal_bytes = path.stat().st_size
    scored = score(kept)
    flops, busy = scored.flops_per_second or 0.0, scored.busy_share or 0.0
    # Hosts differ by their seeds. With few workers all may be fast.
    mean_speed = sum(world.speed_of(slot // opening.conf.workers_per_host) for slot in range(workers)) / workers
    perfect = workers * mean_speed * reference.score_flops_per_second
    return Rehearsed(
        workers=workers,
        accelerators=workers * opening.conf.accelerators,
        score_flops_per_second=flops,
        perfect_flops_per_second=perfect,
        standard_error=reference.standard_error,
        efficiency=flops / perfect,
        busy_efficiency=busy / reference.busy_share,
        busy_share=busy,
        shares=_shares(kept, window(kept)),
        trials=scored.trials_finished,
        events=effort.events,
        proposals=effort.proposals,
        seconds=effort.seconds,
        driver_seconds=effort.driver_seconds,
        proposing_seconds=effort.proposing_seconds,
        driver_seconds_per_event=effort.driver_seconds / max(1, effort.events),
        simulated_seconds_per_driver_second=opening.first.duration_seconds / effort.driver_seconds,
        proposals_per_second=effort.proposals / effort.proposing_seconds if effort.proposing_seconds else 0.0,
        journal_bytes=journal_bytes,
        memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _shares(kept: WorkLog, inside: Window) -> dict[str, float]:
    spent = accelerator_time(kept, inside)
    breakdown = time_breakdown(spent)
    shares = {line.name: line.share for line in breakdown.lines}
    if breakdown.whole_seconds > 0:
        repeated = {name: getattr(spent.repeated, name) / breakdown.whole_seconds for name in BUSY}
        for name, share in repeated.items():
            shares[name] -= share
        shares["done again"] = sum(repeated.values())
    return shares


def differences(calm: Rehearsed, faulty: Rehearsed) -> list[tuple[str, float]]:
    """Return the cost of faults by line, as shares of the score without them. The lines sum to the lost share.

    Each line of the time breakdown except busy time is weighted with the work of a busy second without faults. The last line
    is the remainder: busy accelerators did other work per second (slow hosts, other networks).
    """
    before, after = (sum(each.shares[name] for name in BUSY) for each in (calm, faulty))
    lost = 1.0 - faulty.score_flops_per_second / calm.score_flops_per_second
    lines = [(name, (faulty.shares[name] - calm.shares[name]) / before) for name in faulty.shares if name not in BUSY]
    lines.sort(key=lambda line: -abs(line[1]))
    return [*lines, ("other speed while busy", lost - (before - after) / before)]
