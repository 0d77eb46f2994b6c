"""Measure how well `compare` gives the ratio of two machines from runs of the reference list.

--modelled N: N pairs of modelled machines with disturbances. Otherwise pairs of real runs, side by side on one core each. The
cores are swapped at half time, so that the true ratio is 1, or 1 − the planted slowdown (the process is stopped for that share
of each tenth of a second).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from aiperf.comparison.compare import seconds_of_machine
from aiperf.report.write import report_of
from aiperf.rules.followed import packaged
from aiperf.statistics.machine_ratio import MachineRatio, machine_ratio
from benchmarks.interval_coverage import GRID, MINUTE, Drift
from benchmarks.pairs import describe_machine
from morphism import cost_of, decode_architecture, decode_morph, rebuilt

PERIOD = 0.1
"""Seconds between two stops of a slowed process."""


def works(name: str = "reference") -> list[float]:
    """Return the operations of each trial of the list."""
    work = packaged(name)
    start = decode_architecture(json.dumps(work.start))
    networks = (rebuilt(start, list(map(decode_morph, trial.morphs))) for trial in work.trials)
    training, validation = work.dataset["training_images"], work.dataset["validation_images"]
    return [
        cost_of(network).epoch_flops(training, validation) * work.epochs(place)
        for place, network in enumerate(networks)
    ]


def modelled(
    operations: list[float], drift: Drift, chance: np.random.Generator, slower: float = 0.0, seconds: float = 600.0
) -> dict[int, float]:
    """Return the seconds of each trial on one worker that needs `seconds` for 25 trials, with a drift of its speed."""
    moments = np.arange(0, 2 * seconds / MINUTE, GRID)
    speeds = drift.speed(moments, chance) * (1 - slower) * sum(operations[:25]) / seconds
    done = np.concatenate([[0.0], np.cumsum(speeds * GRID * MINUTE)])
    ends = np.interp(np.cumsum([0.0, *operations]), done, np.arange(len(done)) * GRID * MINUTE, right=np.inf)
    spans = enumerate(pairwise(ends))
    return {place: float(end - start) for place, (start, end) in spans if end <= seconds and start >= seconds / 10}


def pair(seconds: float, slower: float) -> tuple[MachineRatio | None, list[float]]:
    """Return the ratio of two runs side by side, the second one slowed, and the processor seconds of both."""
    with TemporaryDirectory() as folder:
        words = ["follow=reference", "executor=inline", "trainer.threads=1", f"runs={folder}"]
        lengths = [f"schedule.duration_seconds={seconds:g}", f"schedule.warmup_seconds={seconds / 10:g}"]
        runs = [
            subprocess.Popen(
                [sys.executable, "-m", "aiperf", *words, *lengths, f"name={name}"], stdout=subprocess.DEVNULL
            )
            for name in ("a", "b")
        ]
        spent = [0.0, 0.0]
        cores, began = sorted(os.sched_getaffinity(0))[:2], time.monotonic()
        while runs[0].poll() is None or runs[1].poll() is None:
            is_late = time.monotonic() - began > seconds / 2
            for number, (run, core) in enumerate(zip(runs, reversed(cores) if is_late else cores, strict=True)):
                if run.poll() is None:
                    ticks = Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
                    spent[number] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
                for thread in Path(f"/proc/{run.pid}/task").glob("*"):
                    with suppress(ProcessLookupError):  # it has ended
                        os.sched_setaffinity(int(thread.name), {core})
            for _ in range(10):
                if slower and runs[1].poll() is None:
                    runs[1].send_signal(signal.SIGSTOP)
                    time.sleep(PERIOD * slower)
                    runs[1].send_signal(signal.SIGCONT)
                time.sleep(PERIOD * (1 - slower))
        reports = [report_of(next(Path(folder).glob(f"*-{name}"))) for name in ("a", "b")]
    return machine_ratio(*map(seconds_of_machine, reports)), spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modelled", type=int, default=0)
    parser.add_argument("--deviation", type=float, default=0.02, help="of the modelled speed")
    parser.add_argument("--minutes", type=float, default=1.0, help="correlation of the modelled speed")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--slower", type=float, default=0.0)
    arguments = parser.parse_args()
    truth, ratios = 1 - arguments.slower, []
    print(describe_machine())
    if arguments.modelled:
        operations, chance = works(), np.random.default_rng(0)
        drift = Drift(arguments.deviation, arguments.minutes)
        for _ in range(arguments.modelled):
            both = (modelled(operations, drift, chance, slower) for slower in (0.0, arguments.slower))
            ratios.append(machine_ratio(*both))
    for number in range(0 if arguments.modelled else arguments.pairs):
        found, spent = pair(arguments.seconds, arguments.slower)
        print(f"pair {number}: {found}, processor seconds {spent[0]:.1f} and {spent[1]:.1f}", flush=True)
        ratios.append(found)
    intervals = [found.interval for found in ratios if found is not None and found.interval is not None]
    inside = sum(low <= truth <= high for low, high in intervals)
    below = sum(high < 1 for _, high in intervals)
    print(f"{len(intervals)} of {len(ratios)} pairs with an interval: {inside} contain {truth:g}, {below} are below 1")


if __name__ == "__main__":
    main()
