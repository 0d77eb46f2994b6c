"""Effect of parts of the search: pairs of runs of one seed with and without a part, side by side on one core each.

    python -m benchmarks.ablations [--only PART,…] [--pairs 6] [--seconds 240] [--out FOLDER] [OPTION=VALUE …]

The runs of the next pair change cores. Options after them, such as `dataset=images dataset.root=FOLDER dataset.image=32`, are
those of every run. For each part it prints the ratio without ÷ with of error, score and regulated score, with the paired 95 %
interval of Student's t, and the ratio of the scores' coefficients of variation between seeds, with its interval by F.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scipy.stats import f

from aiperf.report.figures import by_name
from aiperf.report.write import report_of
from aiperf.statistics.estimate import LEVEL, of_repeats, spread
from benchmarks.pairs import describe_machine

PARTS: dict[str, tuple[list[str], list[str]]] = {
    "inheritance": ([], ["trainer.inherit=false"]),
    "kernel": (["batch.smallest=64", "batch.largest=64"], ["hpo=off"]),
    "guided": (["searcher=morphism"], ["searcher=random"]),
    "epoch": (["schedule.epochs=[30]"], ["schedule.epochs=[15]"]),
    "warm-up": ([], ["schedule.warmup_rounds=0"]),
}
"""Options with and without each part. kernel: TPE over kernels alone. epoch: at which the accuracy is read, 30 or 15."""
FIGURES = ("error", "score", "regulated")


def pair(sides: tuple[list[str], list[str]], number: int, common: list[str], folder: Path) -> list[dict[str, float]]:
    """Run both sides at once. Return the figures of each."""
    usable, started = os.sched_getaffinity(0), []
    for side, own in enumerate(sides):
        os.sched_setaffinity(0, {sorted(usable)[(side + number) % 2]})  # inherited by the run
        words = [
            "executor=inline",
            "trainer.threads=1",
            f"seed={number}",
            f"runs={folder}/{number}-{side}",
            *common,
            *own,
        ]
        started.append(subprocess.Popen([sys.executable, "-m", "aiperf", *words], stdout=subprocess.DEVNULL))
    os.sched_setaffinity(0, usable)
    codes = [process.wait() for process in started]
    runs = [report_of(run) for side in (0, 1) for run in (folder / f"{number}-{side}").iterdir()]
    found = [{name: by_name(name).of(report) or 0.0 for name in FIGURES} for report in runs]
    if any(codes) or len(found) < len(sides) or not all(value for each in found for value in each.values()):
        sys.exit(f"both runs of a pair must end with a score and an error: see {folder}/{number}-0 and -1 (--out)")
    return found


def row(part: str, pairs: list[list[dict[str, float]]]) -> str:
    cells = []
    for name in FIGURES:
        if (ratio := of_repeats([without[name] / with_[name] for with_, without in pairs])) is not None:
            cells.append((ratio.value, *ratio.interval))
    with_, without = (spread([each["score"] for each in side]) for side in zip(*pairs, strict=True))
    assert with_ is not None and without is not None, "two pairs or more"
    grown, factor = (
        without.variation / with_.variation,
        math.sqrt(f.ppf((1 + LEVEL) / 2, len(pairs) - 1, len(pairs) - 1)),
    )
    cells.append((grown, grown / factor, grown * factor))
    return f"| {part} | {' | '.join(f'{value:.3f} ({low:.3f}–{high:.3f})' for value, low, high in cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=240.0, help="of a run, a ninth of it warm-up")
    parser.add_argument("--out", type=Path, help="keep the runs in this new folder")
    parser.add_argument("options", nargs="*", help="options of every run")
    arguments = parser.parse_args()
    times = f"schedule.duration_seconds={arguments.seconds}", f"schedule.warmup_seconds={arguments.seconds / 9}"
    print(f"{describe_machine()}, {arguments.pairs} pairs of {arguments.seconds:g} s")
    print("| without ÷ with | error | score | regulated score | spread of the score |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="ablations-") as scratch:
        folder = arguments.out or Path(scratch)
        for part in arguments.only.split(","):
            common = [*times, *arguments.options]
            pairs = [pair(PARTS[part], number, common, folder / part) for number in range(arguments.pairs)]
            print(row(part, pairs), flush=True)


if __name__ == "__main__":
    main()
