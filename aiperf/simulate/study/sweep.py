"""`python -m aiperf rehearse key=value …`: simulated clusters of 1 to 4096 workers; a table, what was lost, and one picture.

Options are those of a simulated run. cluster.workers is the largest size; each size below it is a fourth of the one above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import msgspec

from aiperf.config import RunConf, configure
from aiperf.planning.plan import make_folder
from aiperf.simulate.study.rehearse import BUSY, Alone, Rehearsed, alone, differences, rehearse, sizes
from aiperf.units import count, duration, flops_per_second, share, size
from aiperf.whole_files import replace_file
from cluster.simulated import SimulatedConf

LARGEST = 4096
HOURS = 3
"""Virtual length of a sweep: an hour of warm-up and two that count, in which rounds 1 to 3 follow each other: pauses between
trials are more frequent there than later."""
DEFAULTS = (
    "+cluster=simulated",
    "schedule=ranking",
    f"schedule.duration_seconds={HOURS * 3600}",
    "searcher=random",
    "hpo=off",
    f"cluster.workers={LARGEST}",
)


def main(words: list[str]) -> int:
    """Carries the verb out: prints the table, draws the picture, and says where it is; gives the exit status."""
    from aiperf.simulate.study.scaling_plot import draw

    conf = configured(words)
    assert isinstance(conf.cluster, SimulatedConf)
    folder = make_folder(Path(conf.runs) / (conf.name or "rehearsal"))
    print(introduction(conf), flush=True)
    reference = alone(conf)
    print(reference_in_words(reference))
    print(HEAD)
    sweep: list[Rehearsed] = []
    for workers in sizes(conf.cluster.workers):
        sweep.append(rehearse(conf, workers, reference))
        print(line(sweep[-1]), flush=True)
    print(lost(sweep[-1]))
    if conf.cluster.faults:
        print(cost_of_faults(conf, sweep[-1], reference))
    found = {"alone": asdict(reference), "sweep": [asdict(each) for each in sweep]}
    replace_file(folder / "rehearsal.json", msgspec.json.format(msgspec.json.encode(found)))
    for path in draw(sweep, folder):
        print(path)
    return 0


def configured(words: Sequence[str]) -> RunConf:
    """What was said on the command line over the defaults of a sweep; a schedule that is named keeps its own length."""
    named = {word.lstrip("+").partition("=")[0] for word in words}
    if "schedule" in named:
        named.add("schedule.duration_seconds")
    defaults = [word for word in DEFAULTS if word.lstrip("+").partition("=")[0] not in named]
    return configure([*defaults, *words])


def introduction(conf: RunConf) -> str:
    """What is about to be simulated, for a person: no figure below was measured on a machine, but for the driver's costs."""
    assert isinstance(conf.cluster, SimulatedConf)
    schedule = conf.schedule
    return (
        f"simulated clusters: {duration(schedule.duration_seconds)} of a virtual clock each, "
        f"{duration(schedule.warmup_seconds)} of them warm-up; searcher {conf.searcher.name}, tuning {conf.hpo.name}, "
        f"faults: {', '.join(map(str, conf.cluster.faults)) or 'none'}. No work is done, and no such score is ever ranked."
    )


def reference_in_words(reference: Alone) -> str:
    """What perfect is, for a person."""
    return (
        f"one worker alone: {flops_per_second(reference.score_flops_per_second)} "
        f"± {share(reference.standard_error, 2)} (mean of several seeds, and its standard error), "
        f"busy {share(reference.busy_share, 2)}. Perfect is that, for every worker of the cluster at its own speed."
    )


COLUMNS = {
    "workers": 7,
    "score": 11,
    "efficiency": 10,
    "of busy time": 12,
    "trials": 7,
    "events": 10,
    "driver": 12,
    "per event": 9,
    "proposals/s": 11,
    "journal": 8,
    "memory": 8,
}
"""And how wide they are."""
HEAD = "  ".join(f"{name:>{width}}" for name, width in COLUMNS.items())
"""Over the lines."""


def line(each: Rehearsed) -> str:
    """One size of cluster, for a person; the driver's costs are processor time."""
    cells = (
        count(each.workers),
        flops_per_second(each.score_flops_per_second),
        share(each.efficiency, 2),
        share(each.busy_efficiency, 2),
        count(each.trials),
        count(each.events),
        duration(each.driver_seconds),
        f"{each.driver_seconds_per_event * 1e6:.0f} µs",
        f"{each.proposals_per_second:.0f}",
        size(each.journal_bytes),
        size(each.memory_bytes),
    )
    return "  ".join(f"{cell:>{width}}" for width, cell in zip(COLUMNS.values(), cells, strict=True))


def lost(each: Rehearsed) -> str:
    """Where the accelerators' time went that was not trained in; what cost nothing is left out."""
    parts = sorted(((name, part) for name, part in each.shares.items() if name not in BUSY), key=lambda item: -item[1])
    spent = ", ".join(f"{name} {share(part, 2)}" for name, part in parts if part)
    return f"lost with {workers_in_words(each.workers)}: {spent or 'nothing'}"


def workers_in_words(number: int) -> str:
    """`1 worker`, `4096 workers`."""
    return f"{count(number)} worker{'' if number == 1 else 's'}"


def cost_of_faults(conf: RunConf, faulty: Rehearsed, reference: Alone) -> str:
    """What the configured faults cost at the largest size, held against the same cluster without them, in Markdown."""
    assert isinstance(conf.cluster, SimulatedConf)
    calm = rehearse(replace(conf, cluster=replace(conf.cluster, faults=[])), faulty.workers, reference)
    whole = 1.0 - faulty.score_flops_per_second / calm.score_flops_per_second
    rows = [
        f"lost to faults with {workers_in_words(faulty.workers)}: {share(whole, 2)} of "
        f"{flops_per_second(calm.score_flops_per_second)}",
        "",
        "| line | share of the score without faults |",
        "| --- | ---: |",
    ]
    rows += [f"| {name} | {share(part, 2)} |" for name, part in differences(calm, faulty)]
    return "\n".join([*rows, f"| all | {share(whole, 2)} |"])
