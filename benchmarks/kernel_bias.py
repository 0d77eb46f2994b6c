"""Measure the bias of tuned kernel sizes towards 7×7 on a landscape on which all networks are equally good.

Kernel morphs only enlarge kernels, since a smaller kernel cannot compute the function of a larger one. A child of a network
with 7×7 kernels keeps them, independent of tuning.

python -m benchmarks.kernel_bias [--seeds 4] [--trials 160] [--factor 4]
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from aiperf.journal.events import TrialProposed
from aiperf.journal.journal import NAME, read
from aiperf.simulate.driver_restarts import drive
from aiperf.simulate.session import open_run, world_of
from benchmarks.landscape_run import Setting, configured
from benchmarks.landscapes import Landscape, OnLandscape
from benchmarks.pairs import describe_machine
from morphism import cost, start
from searchers.searcher_config import HpoConf, MorphismConf, OffConf, TpeConf


def proposals(setting: Setting, hpo: HpoConf, seed: int) -> list[TrialProposed]:
    """Return the proposals of one simulated run on a flat landscape."""
    opening = open_run(replace(configured(setting, MorphismConf(), seed), hpo=hpo))
    learning = OnLandscape(Landscape(start(setting.start), seed, "saturated"))
    with tempfile.TemporaryDirectory(prefix="kernel-bias-") as folder:
        path = Path(folder) / NAME
        drive(world_of(opening, learning=learning), opening.first, path)
        return [event for event in read(path) if isinstance(event, TrialProposed)]


def with_largest_kernels(made: list[TrialProposed]) -> list[tuple[TrialProposed, int]]:
    """Return each proposal with the largest kernel from a morph of its lineage. 3 if no morph enlarged a kernel."""
    largest: dict[int | None, int] = {None: 3}
    for each in made:
        largest[each.number] = max([largest[each.parent], *(int(morph.get("kernel", 0)) for morph in each.morphs)])
    return [(each, largest[each.number]) for each in made]


def main() -> None:
    """Print a table of kernel sizes and operations in each quarter of the runs, with and without tuning."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernel_bias", description=__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--trials", type=int, default=160)
    parser.add_argument("--factor", type=float, default=4.0, help="of the budget; 4 is the ranking schedule's")
    arguments = parser.parse_args()
    setting = Setting(trials=arguments.trials, factor=arguments.factor)
    of_start = cost(start(setting.start)).training_flops
    print(f"{describe_machine()}; {setting.workers} workers, {arguments.seeds} seeds, {setting.trials} trials\n")
    print("| tuning | quarter of the run | largest kernel 3×3 | 5×5 | 7×7 | operations, as a multiple of the start's |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, hpo in (("tpe", TpeConf()), ("off", OffConf())):
        runs = [with_largest_kernels(proposals(setting, hpo, seed)) for seed in range(arguments.seeds)]
        for quarter in range(4):
            part = [each for run in runs for each in run[quarter * len(run) // 4 : (quarter + 1) * len(run) // 4]]
            shares = [fmean(kernel == size for _, kernel in part) for size in (3, 5, 7)]
            growth = fmean((each.forward_flops + each.backward_flops) / of_start for each, _ in part)
            print(
                f"| {name} | {quarter + 1} | {' | '.join(f'{each:.0%}' for each in shares)} | {growth:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
