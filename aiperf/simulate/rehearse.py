"""`python -m aiperf rehearse key=value …`: simulated clusters of 1 to 4096 workers; a table, and one picture.

Options are those of a simulated run; schedule=ranking and searcher=random unless something else is said. cluster.workers is the
largest size; each size below it is a fourth of the one above.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from aiperf.books import books
from aiperf.conf import RunConf, configure
from aiperf.journal import NAME, read
from aiperf.ledger import ledger
from aiperf.score import score, window
from aiperf.simulate.session import open_run, world_of
from aiperf.simulate.sittings import drive
from aiperf.units import count, duration, flops_per_second, share, size
from cluster.conf import SimulatedConf

LARGEST = 4096
DEFAULTS = ("+cluster=simulated", "schedule=ranking", "searcher=random", "hpo=off", f"cluster.workers={LARGEST}")


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """One size of cluster."""

    workers: int
    accelerators: int
    score_flops_per_second: float
    efficiency: float
    """Score ÷ (workers × the hosts' mean speed × what one worker of the configured speed reaches without faults)."""
    busy_share: float
    lost_shares: dict[str, float]
    """Where accelerator time went that was not trained in, line by line, of the whole."""
    trials: int
    events: int
    proposals: int
    seconds: float
    """Real, for all of it."""
    driver_seconds: float
    driver_seconds_per_event: float
    simulated_seconds_per_driver_second: float
    proposals_per_second: float
    """While the searcher was at it."""
    journal_bytes: int
    memory_bytes: int
    """The process's largest so far."""


def main(words: list[str]) -> int:
    """Carries the verb out: prints the table, draws the picture, and says where it is; gives the exit status."""
    named = {word.lstrip("+").partition("=")[0] for word in words}
    conf = configure([word for word in DEFAULTS if word.lstrip("+").partition("=")[0] not in named] + words)
    folder = Path(conf.runs) / (conf.name or "rehearsal")
    folder.mkdir(parents=True, exist_ok=True)
    assert isinstance(conf.cluster, SimulatedConf)
    sweep: list[Rehearsed] = []
    alone = perfect(conf)
    for workers in sizes(conf.cluster.workers):
        sweep.append(rehearse(conf, workers, alone))
        print(line(sweep[-1]), flush=True)
    print(lost(sweep[-1]))
    (folder / "rehearsal.json").write_bytes(msgspec.json.format(msgspec.json.encode([asdict(each) for each in sweep])))
    from aiperf.simulate.picture import draw

    for path in draw(sweep, folder):
        print(path)
    return 0


def sizes(largest: int) -> list[int]:
    """1, 4, 16, … up to the largest, which stands there whatever it is.

    >>> sizes(4096), sizes(100)
    ([1, 4, 16, 64, 256, 1024, 4096], [1, 4, 16, 64, 100])
    """
    found = [1]
    while found[-1] * 4 < largest:
        found.append(found[-1] * 4)
    return found if largest <= 1 else [*found, largest]


def perfect(conf: RunConf) -> float:
    """The score of one worker of exactly the configured speed, without faults: what perfect scaling multiplies."""
    assert isinstance(conf.cluster, SimulatedConf)
    calm = replace(conf.cluster, speed_spread=0.0, faults=[])
    return rehearse(replace(conf, cluster=calm), 1, 1.0).score_flops_per_second


def rehearse(conf: RunConf, workers: int, alone: float) -> Rehearsed:
    """Simulates a cluster of so many workers, and scores its journal; `alone`: see `perfect`."""
    assert isinstance(conf.cluster, SimulatedConf)
    opening = open_run(replace(conf, cluster=replace(conf.cluster, workers=workers)))
    world = world_of(opening)
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        path = Path(folder) / NAME
        effort = drive(world, opening.first, path)
        kept = books(read(path))
        journal_bytes = path.stat().st_size
    scored = score(kept)
    flops = scored.flops_per_second or 0.0
    # Hosts differ by their seeds: of few workers all may be fast ones.
    mean_speed = sum(world.speed_of(slot // opening.conf.workers_per_host) for slot in range(workers)) / workers
    lines = {each.name: each.share for each in ledger(kept, window(kept)).lines}
    return Rehearsed(
        workers=workers,
        accelerators=workers * opening.conf.accelerators,
        score_flops_per_second=flops,
        efficiency=flops / (workers * mean_speed * alone),
        busy_share=scored.busy_share or 0.0,
        lost_shares={name: part for name, part in lines.items() if name not in ("training", "validation")},
        trials=scored.trials_finished,
        events=effort.events,
        proposals=effort.proposals,
        seconds=effort.seconds,
        driver_seconds=effort.driver_seconds,
        driver_seconds_per_event=effort.driver_seconds / max(1, effort.events),
        simulated_seconds_per_driver_second=opening.first.duration_seconds / effort.driver_seconds,
        proposals_per_second=effort.proposals / effort.proposing_seconds if effort.proposing_seconds else 0.0,
        journal_bytes=journal_bytes,
        memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def line(each: Rehearsed) -> str:
    """One size of cluster, for a person."""
    return (
        f"{count(each.workers):>6} workers  {flops_per_second(each.score_flops_per_second):>12}  "
        f"efficiency {share(each.efficiency, 2):>8}  busy {share(each.busy_share):>7}  {count(each.trials):>7} trials  "
        f"{count(each.events):>10} events  "
        f"driver {each.driver_seconds_per_event * 1e6:.0f} µs/event, {duration(each.driver_seconds)} "
        f"of {duration(each.seconds)}  "
        f"{each.proposals_per_second:.0f} proposals/s  journal {size(each.journal_bytes)}  memory {size(each.memory_bytes)}"
    )


def lost(each: Rehearsed) -> str:
    """Where the accelerators' time went that was not trained in."""
    parts = sorted(each.lost_shares.items(), key=lambda item: -item[1])
    return f"lost at {count(each.workers)} workers: " + ", ".join(f"{name} {share(part, 2)}" for name, part in parts)


def table(sweep: Sequence[Rehearsed]) -> str:
    """The sweep in Markdown."""
    rows = [
        "| workers | score | efficiency | events | driver | per event | proposals/s | memory |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    rows += [
        f"| {count(each.workers)} | {flops_per_second(each.score_flops_per_second)} | {share(each.efficiency, 2)} "
        f"| {count(each.events)} | {duration(each.driver_seconds)} | {each.driver_seconds_per_event * 1e6:.0f} µs "
        f"| {each.proposals_per_second:.0f} | {size(each.memory_bytes)} |"
        for each in sweep
    ]
    return "\n".join(rows)
