"""Score of a finished run relative to the rate of its busy accelerators, and its pauses between trials.

    python -m benchmarks.accounting runs/20261121-120000-digits

Reads the journal only. Prints for the valid window score ÷ (operations per busy accelerator-second × accelerators), with each
trial's operations per busy second weighted by these seconds, and the pauses of the workers. `score` prints the time breakdown.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np

from aiperf.accounting.intervals import share_inside
from aiperf.accounting.score import capacity, score
from aiperf.accounting.work_log import window, work_log
from aiperf.journal.events import AnyEvent, EpochFinished, Progress, TrialFinished
from aiperf.journal.journal import read
from aiperf.journal.run_folder import run_folder
from aiperf.units import duration, flops_per_second
from benchmarks.pairs import describe_machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run's folder, or its name under runs/")
    events = list(read(run_folder(parser.parse_args().run)))
    log = work_log(events)
    inside, result, columns = window(log), score(log), log.intervals
    assert result.flops_per_second is not None, "a run that ended within its warm-up has no score to break down"
    part = share_inside(np.array(columns.start), np.array(columns.end), inside)
    busy = float((np.array(columns.busy) * np.array(columns.ranks) * part).sum())
    perfect = float((np.array(columns.flops) * part).sum()) / busy * capacity(log)
    print(f"machine: {describe_machine()}")
    print(f"score {flops_per_second(result.flops_per_second)} in a window of {duration(inside.seconds)}")
    print(f"operations per busy accelerator-second × accelerators: {flops_per_second(perfect)}")
    print(f"score ÷ that: {result.flops_per_second / perfect:.4f} (goal ≥ 0.98)")
    if pauses := _pauses(events):
        print(
            "pause between two trials of a worker, from its last image until the next network is ready: "
            f"median {1000 * statistics.median(pauses):.1f} ms, longest {1000 * max(pauses):.1f} ms, {len(pauses)} pauses"
        )


def _pauses(events: list[AnyEvent]) -> list[float]:
    """Return the seconds from the last image of a worker's trial until its next trial is prepared with its weights."""
    ended: dict[int, float] = {}
    last: dict[int, tuple[int, float]] = {}
    pauses: list[float] = []
    trial_of: dict[int, int] = {}
    for event in events:
        if isinstance(event, Progress | EpochFinished):
            if (work := event.interval) is None:
                continue
            if trial_of.get(work.worker) != event.trial:
                if work.worker in ended:
                    # An interval begins when the network is ready.
                    pauses.append(work.start - ended.pop(work.worker))
                trial_of[work.worker] = event.trial
            if work.training_images + work.validation_images > 0:  # otherwise it only waited for the last checkpoint
                last[event.trial] = (work.worker, work.end)
        elif isinstance(event, TrialFinished) and event.trial in last:
            worker, end = last[event.trial]
            ended[worker] = end
    return pauses


if __name__ == "__main__":
    main()
